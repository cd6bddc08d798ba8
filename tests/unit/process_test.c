/* SPDX-License-Identifier: Apache-2.0 */
/* The child is this program itself, told what to do by its first argument. */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/random.h"

#define SELF "/proc/self/exe"

/* ---- What children do ---- */

/* Sends back what it gets, doubled byte by byte, until the other end closes. */
static int child_echo(void)
{
    for (;;) {
        unsigned char byte;
        wf_status_t status = wf_socket_receive(3, &byte, 1, -1);
        if (status != WF_OK) {
            wf_status_free(status);
            return 42;
        }
        byte = (unsigned char)(2 * byte);
        wf_status_ignore(wf_socket_send(3, &byte, 1, -1));
    }
}

/* Open descriptors, by number, in 16 bytes. */
static int child_descriptors(void)
{
    char open_ones[16];
    for (int fd = 0; fd < 16; fd++) {
        open_ones[fd] = fcntl(fd, F_GETFD) >= 0 ? '1' : '0';
    }
    wf_status_ignore(wf_socket_send(3, open_ones, sizeof open_ones, -1));
    return 0;
}

/* Adds 1 to each byte of the memory that it receives. */
static int child_memory(void)
{
    int fd;
    wf_status_t status = wf_socket_receive_fd(3, &fd, 10000);
    if (status != WF_OK) {
        wf_status_free(status);
        return 1;
    }
    unsigned char *bytes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) {
        return 2;
    }
    for (int i = 0; i < 4096; i++) {
        bytes[i]++;
    }
    wf_status_ignore(wf_socket_send(3, "d", 1, -1));
    return 0;
}

/* Starts a grandchild in its own group that sleeps, tells its number and sleeps too. */
static int child_family(void)
{
    char *argv[] = {"sleep", "1000", NULL};
    pid_t pid = 0;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0) {
        return 1;
    }
    wf_status_ignore(wf_socket_send(3, &pid, sizeof pid, -1));
    for (;;) {
        pause();
    }
}

static int child_main(const char *what)
{
    wf_process_die_with_parent();
    static const struct {
        const char *name;
        int (*run)(void);
    } rows[] = {{"echo", child_echo},
                {"descriptors", child_descriptors},
                {"memory", child_memory},
                {"family", child_family}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, what) == 0) {
            return rows[i].run();
        }
    }
    if (strcmp(what, "abort") == 0) {
        abort();
    }
    for (;;) {
        pause();
    }
}

/* ---- Tests ---- */

static wf_process_t start(const char *what)
{
    char role[32];
    snprintf(role, sizeof role, "%s", what);
    char *argv[] = {"process_test", role, NULL};
    wf_process_t process;
    wf_assert_ok(wf_process_start(SELF, argv, &process));
    assert_true(process.pid > 0 && process.socket >= 0);
    return process;
}

static int await_end(wf_process_t *process)
{
    int how;
    while (!wf_process_ended(process, &how)) {
        usleep(1000);
    }
    int again;
    assert_true(wf_process_ended(process, &again));
    assert_int_equal(how, again);
    return how;
}

static void bytes_go_both_ways(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("process", 6);
    wf_process_t process = start("echo");
    int how;
    for (int i = 0; i < 100; i++) {
        unsigned char sent = (unsigned char)wf_random_u64(&random);
        unsigned char received;
        wf_assert_ok(wf_socket_send(process.socket, &sent, 1, 10000));
        wf_assert_ok(wf_socket_receive(process.socket, &received, 1, 10000));
        assert_int_equal(received, (unsigned char)(2 * sent));
    }
    assert_false(wf_process_ended(&process, &how));
    close(process.socket); /* the child leaves when the connection ends */
    process.socket = -1;
    how = await_end(&process);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 42);
    wf_process_kill(&process);
    wf_process_kill(&process);
    assert_int_equal(process.pid, 0);
}

static void a_child_has_four_descriptors(void **state)
{
    (void)state;
    int leak = open("/dev/null", O_RDONLY); /* without close-on-exec */
    wf_process_t process = start("descriptors");
    char open_ones[17] = "";
    wf_assert_ok(wf_socket_receive(process.socket, open_ones, 16, 60000));
    assert_string_equal(open_ones, "1111000000000000");
    wf_process_kill(&process);
    close(leak);
}

static void memory_is_shared_by_descriptor(void **state)
{
    (void)state;
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    unsigned char *bytes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(bytes != MAP_FAILED);
    memset(bytes, 41, 4096);
    wf_process_t process = start("memory");
    wf_assert_ok(wf_socket_send_fd(process.socket, fd, 10000));
    close(fd);
    char done;
    wf_assert_ok(wf_socket_receive(process.socket, &done, 1, 60000));
    for (int i = 0; i < 4096; i++) {
        assert_int_equal(bytes[i], 42);
    }
    munmap(bytes, 4096);
    wf_process_kill(&process);
}

static void a_byte_without_a_file_is_no_file(void **state)
{
    (void)state;
    wf_process_t process = start("echo");
    int fd;
    wf_assert_ok(wf_socket_send(process.socket, "x", 1, 10000));
    wf_assert_fails(wf_socket_receive_fd(process.socket, &fd, 60000), INTERNAL);
    assert_int_equal(fd, -1);
    wf_process_kill(&process);
}

static void silence_times_out(void **state)
{
    (void)state;
    wf_process_t process = start("pause");
    char byte;
    int fd;
    static char large[4 << 20];
    wf_assert_fails(wf_socket_receive(process.socket, &byte, 1, 0), TIME_OUT);
    wf_assert_fails(wf_socket_receive(process.socket, &byte, 1, 20), TIME_OUT);
    wf_assert_fails(wf_socket_receive_fd(process.socket, &fd, 20), TIME_OUT);
    wf_assert_fails(wf_socket_send(process.socket, large, sizeof large, 20), TIME_OUT);
    wf_process_kill(&process);
}

static void a_dead_child_is_seen(void **state)
{
    (void)state;
    wf_process_t process = start("abort");
    char byte;
    wf_assert_fails(wf_socket_receive(process.socket, &byte, 1, 60000), INTERNAL);
    int how = await_end(&process);
    assert_true(WIFSIGNALED(how));
    assert_int_equal(WTERMSIG(how), SIGABRT);
    wf_assert_fails(wf_socket_send(process.socket, "x", 1, 1000), INTERNAL); /* and no SIGPIPE */
    wf_process_kill(&process);
    assert_true(wf_process_ended(&process, &how));
}

static void a_killed_child_takes_its_family_along(void **state)
{
    (void)state;
    wf_process_t process = start("family");
    pid_t grandchild;
    wf_assert_ok(wf_socket_receive(process.socket, &grandchild, sizeof grandchild, 60000));
    assert_int_equal(kill(grandchild, 0), 0);
    wf_process_kill(&process);
    /* Its new parent may need a moment to collect it; a zombie is dead too. */
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)grandchild);
    for (int tries = 0;; tries++) {
        char line[256] = "";
        FILE *file = fopen(path, "r");
        if (file == NULL) {
            break;
        }
        size_t length = fread(line, 1, sizeof line - 1, file);
        fclose(file);
        const char *close_paren = strrchr(line, ')');
        if (length == 0 || (close_paren != NULL && close_paren[2] == 'Z')) {
            break;
        }
        assert_true(tries < 6000);
        usleep(10000);
    }
}

static void missing_programs_are_named(void **state)
{
    (void)state;
    char *argv[] = {"none", NULL};
    wf_process_t process;
    wf_assert_fails(wf_process_start("/nonexistent/program", argv, &process), FILE_MISSING);
    assert_int_equal(process.pid, 0);
    assert_int_equal(process.socket, -1);
    wf_assert_fails(wf_process_start("/dev/null", argv, &process), INTERNAL);
    wf_process_kill(&process);
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        return child_main(argv[1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_go_both_ways),
        cmocka_unit_test(a_child_has_four_descriptors),
        cmocka_unit_test(memory_is_shared_by_descriptor),
        cmocka_unit_test(a_byte_without_a_file_is_no_file),
        cmocka_unit_test(silence_times_out),
        cmocka_unit_test(a_dead_child_is_seen),
        cmocka_unit_test(a_killed_child_takes_its_family_along),
        cmocka_unit_test(missing_programs_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
