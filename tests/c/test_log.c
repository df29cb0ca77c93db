/* Forks while other threads write and list warnings: the children warn, too.  Exit code 0, or 1 when a
 * child did not come back (it waits for a lock that nobody in it holds). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"

static atomic_bool stop;

static void *
talk(void *unused)
{
    char out[4096], topic[32];

    for (unsigned i = 0; !stop; i++) {
        snprintf(topic, sizeof topic, "topic %u", i % 40);
        fr_warn_once(topic, "said %u", i);
        fr_warnings(out, sizeof out);
    }
    return unused;
}

int
main(void)
{
    pthread_t thread[2];
    int       status, failed = 0;

    fr_env.quiet = 1;
    if (!fr_log_init())
        return 2;
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, talk, NULL);
    for (int i = 0; i < 300 && !failed; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            char out[4096];

            alarm(10);
            fr_warn_once("child", "said");
            fr_warnings(out, sizeof out);
            _exit(0);
        }
        failed = pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
    }
    stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    return failed;
}
