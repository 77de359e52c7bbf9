// nagori-exit N: ends the machine with exit status N, through its test device.
// The device's address and codes are those of `sifive,test0` (QEMU virt has it, too).
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

enum { TEST_DEVICE = 0x100000, PASS = 0x5555, FAIL = 0x3333 };

// The device is not there, or belongs to somebody else, such as another VM.
static void refused(int signal)
{
    static const char text[] = "nagori-exit: the test device cannot be accessed\n";
    (void)signal;
    _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 2 : 1);
}

int main(int argc, char **argv)
{
    char *end = "?";
    unsigned long status = argc == 2 ? strtoul(argv[1], &end, 0) : 0;
    if (*end != '\0' || argv[1][0] == '\0' || status > 0xffff) {
        fprintf(stderr, "usage: nagori-exit STATUS (0 to 65535)\n");
        return 2;
    }

    // The console sends from a queue, which would die with the machine.
    fflush(stdout);
    tcdrain(STDOUT_FILENO);

    int fd = open("/dev/mem", O_RDWR | O_SYNC);
    if (fd < 0) {
        fprintf(stderr, "nagori-exit: /dev/mem: %s\n", strerror(errno));
        return 1;
    }
    volatile uint32_t *test =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, TEST_DEVICE);
    if (test == MAP_FAILED) {
        fprintf(stderr, "nagori-exit: test device at %#x: %s\n", TEST_DEVICE, strerror(errno));
        return 1;
    }
    signal(SIGSEGV, refused);
    signal(SIGBUS, refused);
    *test = status == 0 ? PASS : (uint32_t)(status << 16 | FAIL);
    // Still here: there is no such device.
    fprintf(stderr, "nagori-exit: no test device at %#x\n", TEST_DEVICE);
    return 1;
}
