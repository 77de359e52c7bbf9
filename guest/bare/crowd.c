/* Lines that many harts fight for. */
#define HARTS 16
#define ROUNDS 40
#include "contend.c"
