/* Writes through a shared mapping while another process does the same with the other half, then checks that read(2)
 * and the mapping agree. Usage: mapped FILE; prints "ok".
 * With more arguments it copies its standard input into a mapping instead, without msync(2), and keeps it: mapped FILE SIZE. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 4 << 20, HALF = SIZE / 2 };

static unsigned char expected(size_t i) { return (unsigned char)(i * 7 + i / 4096); }

static void check(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static void fill(const char *path, size_t from, size_t to) {
    int fd = open(path, O_RDWR);
    check(fd >= 0, "open");
    unsigned char *map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(map != MAP_FAILED, "mmap");
    for (size_t i = from; i < to; i++) map[i] = expected(i);
    check(msync(map, SIZE, MS_SYNC) == 0, "msync");
    check(munmap(map, SIZE) == 0 && close(fd) == 0, "unmap");
}

static int hold(const char *path, size_t size) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(fd >= 0 && ftruncate(fd, size) == 0, "create");
    char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(map != MAP_FAILED && fread(map, 1, size, stdin) == size, "copy");
    puts("mapped");
    fflush(stdout);
    getchar();
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3) return hold(argv[1], strtoul(argv[2], NULL, 10));
    check(argc == 2, "usage");
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(fd >= 0 && ftruncate(fd, SIZE) == 0, "create");
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) {
        fill(argv[1], HALF, SIZE);
        _exit(0);
    }
    fill(argv[1], 0, HALF);
    int status;
    check(waitpid(child, &status, 0) == child && status == 0, "child");
    static unsigned char bytes[SIZE];
    check(pread(fd, bytes, SIZE, 0) == SIZE, "read");
    for (size_t i = 0; i < SIZE; i++) check(bytes[i] == expected(i), "content");
    /* write(2) shows in a mapping made before it. */
    unsigned char *map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    check(map != MAP_FAILED && map[5000] == expected(5000), "second mmap");
    check(pwrite(fd, "written", 7, 4998) == 7, "write");
    check(memcmp(map + 4998, "written", 7) == 0, "mapping after write");
    puts("ok");
    return 0;
}
