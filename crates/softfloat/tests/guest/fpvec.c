/* Runs floating-point test vectors on the machine it runs on.
 *
 * stdin:  records of four little-endian u64: op | rm << 8, a, b, c
 * stdout: records of two little-endian u64: result, fflags
 *
 * The order of OPS is the contract with tests/qemu.rs: the binary64 version of
 * an operation has number 2 * index, the binary32 version 2 * index + 1.
 * rm goes through frm and every instruction with a rounding mode uses DYN.
 * binary32 registers hold NaN-boxed values (fmv.w.x boxes).
 */
#include <stdint.h>
#include <stdio.h>

/* Operation on raw registers: operands a, b, c in ft0..ft2, result in ft3 or t0. */
#define FF_CASE(n, load, insn, store)                                       \
    case n:                                                                 \
        __asm__ volatile("fscsr %[cs]\n\t"                                  \
                         load " ft0, %[a]\n\t"                              \
                         load " ft1, %[b]\n\t"                              \
                         load " ft2, %[c]\n\t"                              \
                         "mv t1, %[a]\n\t"                                  \
                         insn "\n\t"                                        \
                         store "\n\t"                                       \
                         "frflags %[fl]"                                    \
                         : [d] "=&r"(out), [fl] "=&r"(flags)                \
                         : [a] "r"(in[1]), [b] "r"(in[2]), [c] "r"(in[3]),  \
                           [cs] "r"(csr)                                    \
                         : "ft0", "ft1", "ft2", "ft3", "t0", "t1");         \
        break;

#define FF_TO_D "fmv.x.d %[d], ft3"
#define FF_TO_S "fmv.x.w %[d], ft3"
#define FF_TO_X "mv %[d], t0"

/* Both formats of an instruction with a floating-point result. */
#define FF_ARITH(i, name, operands)                                         \
    FF_CASE(2 * i, "fmv.d.x", name ".d ft3, " operands, FF_TO_D)            \
    FF_CASE(2 * i + 1, "fmv.w.x", name ".s ft3, " operands, FF_TO_S)

/* Both formats of an instruction with an integer result. */
#define FF_TEST(i, name, operands)                                          \
    FF_CASE(2 * i, "fmv.d.x", name ".d t0, " operands, FF_TO_X)             \
    FF_CASE(2 * i + 1, "fmv.w.x", name ".s t0, " operands, FF_TO_X)

#define FF_TO_INT(i, width)                                                 \
    FF_CASE(2 * i, "fmv.d.x", "fcvt." width ".d t0, ft0, dyn", FF_TO_X)     \
    FF_CASE(2 * i + 1, "fmv.w.x", "fcvt." width ".s t0, ft0, dyn", FF_TO_X)

#define FF_FROM_INT(i, width, dyn)                                          \
    FF_CASE(2 * i, "fmv.d.x", "fcvt.d." width " ft3, t1" dyn, FF_TO_D)      \
    FF_CASE(2 * i + 1, "fmv.w.x", "fcvt.s." width " ft3, t1, dyn", FF_TO_S)

int main(void)
{
    static uint64_t records[4096][4];
    size_t n;

    while ((n = fread(records, sizeof records[0], 4096, stdin)) > 0) {
        for (size_t k = 0; k < n; k++) {
            const uint64_t *in = records[k];
            uint64_t csr = (in[0] >> 8) << 5, out, flags;

            switch (in[0] & 0xff) {
            FF_ARITH(0, "fadd", "ft0, ft1, dyn")
            FF_ARITH(1, "fsub", "ft0, ft1, dyn")
            FF_ARITH(2, "fmul", "ft0, ft1, dyn")
            FF_ARITH(3, "fdiv", "ft0, ft1, dyn")
            FF_ARITH(4, "fsqrt", "ft0, dyn")
            FF_ARITH(5, "fmadd", "ft0, ft1, ft2, dyn")
            FF_ARITH(6, "fmsub", "ft0, ft1, ft2, dyn")
            FF_ARITH(7, "fnmsub", "ft0, ft1, ft2, dyn")
            FF_ARITH(8, "fnmadd", "ft0, ft1, ft2, dyn")
            FF_ARITH(9, "fmin", "ft0, ft1")
            FF_ARITH(10, "fmax", "ft0, ft1")
            FF_TEST(11, "feq", "ft0, ft1")
            FF_TEST(12, "flt", "ft0, ft1")
            FF_TEST(13, "fle", "ft0, ft1")
            FF_TEST(14, "fclass", "ft0")
            FF_TO_INT(15, "w")
            FF_TO_INT(16, "wu")
            FF_TO_INT(17, "l")
            FF_TO_INT(18, "lu")
            FF_FROM_INT(19, "w", "")
            FF_FROM_INT(20, "wu", "")
            FF_FROM_INT(21, "l", ", dyn")
            FF_FROM_INT(22, "lu", ", dyn")
            /* Index 23: to the other format. */
            FF_CASE(46, "fmv.d.x", "fcvt.s.d ft3, ft0, dyn", FF_TO_S)
            FF_CASE(47, "fmv.w.x", "fcvt.d.s ft3, ft0", FF_TO_D)
            default:
                return 2;
            }
            records[k][0] = out;
            records[k][1] = flags;
            if (fwrite(records[k], sizeof(uint64_t), 2, stdout) != 2)
                return 3;
        }
    }
    return ferror(stdin) ? 4 : fflush(stdout) ? 5 : 0;
}
