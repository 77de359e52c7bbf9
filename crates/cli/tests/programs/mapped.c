// Two processes that write a file through shared mappings: `mapped FILE` prints what it holds at last.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 3 * 4096 + 100 };

int main(int argc, char **argv)
{
    int fd = open(argv[argc - 1], O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, SIZE) != 0) {
        perror(argv[argc - 1]);
        return 1;
    }
    char *a = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (a == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    strcpy(a, "parent");
    if (fork() == 0) {
        char *b = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (b == MAP_FAILED || strcmp(b, "parent") != 0)
            _exit(1);
        strcpy(b + 2 * 4096, "child");
        _exit(0);
    }
    int status;
    wait(&status);
    char text[16] = "";
    // By a call, what was written through the mapping.
    if (status != 0 || pread(fd, text, 6, 2 * 4096) != 6)
        return 3;
    printf("mapped %s %s\n", a, text);
    strcpy(a + SIZE - 8, "late");
    // Neither synchronized nor unmapped: the end of the process does that.
    return 0;
}
