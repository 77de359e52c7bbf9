# The text that is compressed: this project's licence.
    .section .rodata
    .globl text, text_end
text:
    .incbin "text.txt"
text_end:
    .byte 0
