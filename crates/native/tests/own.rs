//! Programs with injected delays, on real threads. The source is synthetic: every nanosecond of a thread's own
//! processor time counts as much stall as the test says, so the delay is known.

mod common;

use common::{build, model, monitor, run, Built, Ran};
use nagori_native::monitor::{Epochs, Monitor};
use nagori_native::own;
use nagori_native::source::synthetic::Synthetic;

const MS: u64 = 1_000_000;

/// A program that works for 300 ms of its own processor time.
fn worker() -> Built {
    build(
        "worker",
        r#"
        int main(int argc, char **argv) {
            work(300);
            printf("%.3f\n", spent() / 1e6);
            return argc > 1 ? atoi(argv[1]) : 0;
        }"#,
    )
}

/// A monitor of programs that wait for memory all the time, each wait taking so many times as long in addition.
fn waiting(times: u64, epochs: Epochs) -> Monitor {
    let source = "stall_cycles=1000000000,llc_misses=1000000";
    monitor(model(times), epochs, source)
}

/// As [`waiting`]: each wait takes as long again, in epochs of 10 ms.
fn always_waiting() -> Monitor {
    waiting(1, Epochs::of(10 * MS))
}

/// All of a program's work was asked for, however fast the host is: as much as the processor time that the program
/// prints at its end where nothing is delayed. All of its work counts as waiting, which takes as long again.
fn all_work_asked(built: &Built, outcome: &Ran) {
    let plain = run(built, &[], waiting(0, Epochs::of(10 * MS)));
    let work: f64 = plain.output.trim().parse().unwrap();
    let asked = outcome.report.asked_ns() / (work * 1e6);
    assert!(
        (0.75..1.33).contains(&asked),
        "{asked}: {outcome:?}, {plain:?}"
    );
}

/// What is asked is proportional to the latency, whatever the length of epochs; what is waited is what was asked, but
/// for the last epoch's rounding.
#[test]
fn what_is_asked_is_waited_whatever_the_latency_and_the_epoch() {
    let worker = worker();
    let mut asked = Vec::new();
    for (times, epoch) in [(1, 10), (2, 10), (4, 10), (2, 2), (2, 50)] {
        let monitor = waiting(times, Epochs::of(epoch * MS));
        let outcome = run(&worker, &[], monitor);
        let report = &outcome.report;
        let thread = &report.threads[0];
        // All work was stall, and each wait takes `times` times as long in addition.
        let work = thread.asked_ns / times as f64;
        let ratio = report.waited_ns() / report.asked_ns();
        assert!(
            (0.98..1.02).contains(&ratio),
            "times {times}, epoch {epoch} ms: {ratio}: {report:?}"
        );
        asked.push(work);
    }
    let (least, most) = (
        asked.iter().copied().fold(f64::MAX, f64::min),
        asked.iter().copied().fold(0.0, f64::max),
    );
    assert!(most / least < 1.3, "the same work in every run: {asked:?}");
}

#[test]
fn the_program_itself_sees_the_delay() {
    let worker = worker();
    let outcome = run(&worker, &["7"], waiting(2, Epochs::of(10 * MS)));
    assert_eq!(outcome.status.code(), Some(7));
    let spent: f64 = outcome.output.trim().parse().unwrap();
    let work = outcome.report.threads[0].asked_ns / 2e6;
    // Its processor time is work and waiting, but for the time in which it asked.
    assert!(
        (2.5 * work..3.1 * work).contains(&spent),
        "{spent} ms for {work} ms of work"
    );
    let epochs = &outcome.report.threads[0].epochs;
    assert!(epochs["time"] > 5 && epochs["exit"] == 1, "{epochs:?}");
}

#[test]
fn memory_like_the_hosts_delays_nothing() {
    let outcome = run(&worker(), &[], waiting(0, Epochs::of(10 * MS)));
    assert_eq!(outcome.report.asked_ns(), 0.0);
}

/// A program writes how much processor time, in milliseconds, a thread had used when another one saw the result of its
/// work: with the delay of the work, if the delay came first.
fn propagates(name: &str, source: &str) {
    // So long that only synchronisation ends an epoch.
    let epochs = Epochs {
        length: 10_000 * MS,
        least: MS,
    };
    let built = build(name, source);
    let spent = |times: u64| {
        let monitor = waiting(times, epochs);
        let outcome = run(&built, &[], monitor);
        assert!(outcome.status.success(), "{outcome:?}");
        outcome.output.trim().parse::<f64>().unwrap()
    };
    let (plain, slow) = (spent(0), spent(4));
    assert!(
        slow / plain > 3.5,
        "{name}: {plain} ms became {slow} ms, which should be five times as long"
    );
}

#[test]
fn a_chain_of_locks_hands_delays_on() {
    propagates(
        "locks",
        r#"
        static pthread_mutex_t lock[4];
        static pthread_t t[3];
        static double seen;
        static void *other(void *n) {
            long me = (long)n;
            pthread_mutex_lock(&lock[me]);
            if (me > 0) seen += spent_by(t[me - 1]);
            work(15);
            pthread_mutex_unlock(&lock[me + 1]);
            pthread_mutex_lock(&lock[3]);
            pthread_mutex_unlock(&lock[3]);
            return 0;
        }
        int main() {
            for (int i = 0; i < 4; i++) { pthread_mutex_init(&lock[i], 0); pthread_mutex_lock(&lock[i]); }
            for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, other, (void *)i);
            pthread_mutex_unlock(&lock[0]);
            for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
            printf("%f\n", seen / 1e6);
            return 0;
        }"#,
    );
}

#[test]
fn a_condition_variable_hands_delays_on() {
    propagates(
        "condition",
        r#"
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
        static volatile int done, over;
        static void *other(void *n) {
            work(25);
            pthread_mutex_lock(&lock);
            done = 1;
            pthread_cond_signal(&ready);
            pthread_mutex_unlock(&lock);
            while (!over) usleep(100);
            return n;
        }
        int main() {
            pthread_t t;
            pthread_create(&t, 0, other, 0);
            pthread_mutex_lock(&lock);
            while (!done) pthread_cond_wait(&ready, &lock);
            printf("%f\n", spent_by(t) / 1e6);
            over = 1;
            pthread_mutex_unlock(&lock);
            pthread_join(t, 0);
            return 0;
        }"#,
    );
}

#[test]
fn a_barrier_hands_delays_on() {
    propagates(
        "barrier",
        r#"
        static pthread_barrier_t barrier;
        static volatile int over;
        static void *other(void *n) {
            work(25);
            pthread_barrier_wait(&barrier);
            while (!over) usleep(100);
            return n;
        }
        int main() {
            pthread_t t;
            pthread_barrier_init(&barrier, 0, 2);
            pthread_create(&t, 0, other, 0);
            pthread_barrier_wait(&barrier);
            printf("%f\n", spent_by(t) / 1e6);
            over = 1;
            pthread_join(t, 0);
            return 0;
        }"#,
    );
}

#[test]
fn a_fork_hands_delays_on() {
    propagates(
        "fork",
        r#"
        int main() {
            clockid_t parent;
            clock_getcpuclockid(getpid(), &parent);
            work(25);
            pid_t child = fork();
            if (child == 0) {
                printf("%f\n", clock_ns(parent) / 1e6);
                fflush(stdout);
                _exit(0);
            }
            int status;
            waitpid(child, &status, 0);
            return status != 0;
        }"#,
    );
}

#[test]
fn another_program_that_takes_over_goes_on_with_the_account() {
    let built = build(
        "again",
        r#"
        int main(int argc, char **argv) {
            work(30);
            if (argc == 1) { char *none[] = {0}; execle(argv[0], argv[0], "x", NULL, none); return 1; }
            printf("%.3f\n", spent() / 1e6);
            return 0;
        }"#,
    );
    let outcome = run(&built, &[], always_waiting());
    assert!(outcome.status.success(), "{outcome:?}");
    let thread = &outcome.report.threads[0];
    assert_eq!(outcome.report.threads.len(), 1, "{outcome:?}");
    assert_eq!(thread.epochs["exec"], 2, "the shell's, and its own");
    all_work_asked(&built, &outcome);
}

#[test]
fn every_thread_and_child_has_an_account() {
    let built = build(
        "many",
        r#"
        static void *other(void *n) { work(5); return n; }
        int main() {
            pthread_t t[4];
            for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, other, 0);
            for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
            for (int i = 0; i < 2; i++) if (fork() == 0) { work(5); return 0; }
            while (wait(0) > 0) ;
            return system("/bin/true");
        }"#,
    );
    let outcome = run(&built, &[], always_waiting());
    assert!(outcome.status.success(), "{outcome:?}");
    // The main thread, four threads, two children, and the shell (which may become `true`).
    assert!(
        outcome.report.threads.len() >= 8,
        "{:?}",
        outcome.report.threads
    );
    assert!(
        outcome.report.threads.iter().all(|t| t.left_ns < 3e6),
        "{:?}",
        outcome.report.threads
    );
}

#[test]
fn a_program_that_closes_all_files_stays_emulated() {
    let built = build(
        "closes",
        r#"
        int main() {
            work(15);
            for (int fd = 3; fd < 2000; fd++) close(fd);
            for (int i = 0; i < 900; i++) open("/dev/null", O_RDONLY);
            work(30);
            printf("%.3f\n", spent() / 1e6);
            return 0;
        }"#,
    );
    let outcome = run(&built, &[], always_waiting());
    assert!(outcome.status.success(), "{outcome:?}");
    all_work_asked(&built, &outcome);
}

#[test]
fn a_statically_linked_program_is_refused() {
    let built = common::build_with("static", "int main() { return 0; }", &["-static"]);
    let source = Box::new(Synthetic::new("llc_misses=1000000").unwrap());
    let monitor = nagori_native::monitor::Monitor::new(model(1), Epochs::of(MS), source);
    let e = own::run(built.path.as_os_str(), &[], monitor, &|| false)
        .unwrap_err()
        .to_string();
    assert!(e.contains("linked statically"), "{e}");
    let source = Box::new(Synthetic::new("llc_misses=1000000").unwrap());
    let monitor = nagori_native::monitor::Monitor::new(model(1), Epochs::of(MS), source);
    let e = own::run("no-such-program".as_ref(), &[], monitor, &|| false)
        .unwrap_err()
        .to_string();
    assert!(e.contains("no such program"), "{e}");
}

#[test]
fn a_thread_without_the_helper_ends_the_run() {
    let built = build(
        "clones",
        r#"
        static char stack[65536];
        static int other(void *n) { for (;;) usleep(1000); return 0; }
        int main() {
            clone(other, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, 0);
            for (int i = 0; i < 200; i++) usleep(100000);
            return 0;
        }"#,
    );
    let monitor = monitor(model(1), Epochs::of(10 * MS), "llc_misses=1");
    let e = own::run(built.path.as_os_str(), &[], monitor, &|| false)
        .unwrap_err()
        .to_string();
    assert!(e.contains("runs without the helper"), "{e}");
}

#[test]
fn a_child_without_the_helper_ends_the_run() {
    let child = common::build_with("alone", "int main() { sleep(20); return 0; }", &["-static"]);
    let text = format!(
        "int main() {{ return system(\"{}\"); }}",
        child.path.display()
    );
    let built = build("starts", &text);
    let monitor = monitor(model(1), Epochs::of(10 * MS), "llc_misses=1");
    let e = own::run(built.path.as_os_str(), &[], monitor, &|| false)
        .unwrap_err()
        .to_string();
    assert!(e.contains("runs without the helper"), "{e}");
}

/// A source that fails in the middle ends the program: it does not run on without emulation.
#[test]
fn a_source_that_ends_too_early_ends_the_program() {
    use nagori_native::source::recorded::{End, Recorded};
    let text = concat!(
        r#"{"format":"nagori-epoch-counters","version":1,"source":"test","clock":"1 GHz"}"#,
        "\n",
        r#"{"kind":"epoch","thread":0,"start_ps":0,"end_ps":5,"cause":"time","counts":{"llc_misses":3}}"#,
    );
    let source = Recorded::new("short", text.as_bytes(), End::Error).unwrap();
    let monitor =
        nagori_native::monitor::Monitor::new(model(1), Epochs::of(10 * MS), Box::new(source));
    let e = own::run(worker().path.as_os_str(), &[], monitor, &|| false)
        .unwrap_err()
        .to_string();
    assert!(e.contains("ends before the program"), "{e}");
}

/// Flushes and stores through a library with the names of libpmem wait for each line.
#[test]
fn lines_that_a_library_writes_wait() {
    let library = common::build_with(
        "libfake.so",
        r#"
        void pmem_flush(const void *a, size_t n) { (void)a; (void)n; }
        void pmem_drain(void) {}
        void pmem_persist(const void *a, size_t n) { (void)a; (void)n; }
        void *pmem_memcpy_persist(void *d, const void *s, size_t n) { return memcpy(d, s, n); }
        "#,
        &["-shared", "-fPIC"],
    );
    let built = common::build_with(
        "persists",
        r#"
        void pmem_flush(const void *, size_t); void pmem_drain(void); void pmem_persist(const void *, size_t);
        void *pmem_memcpy_persist(void *, const void *, size_t);
        static _Alignas(64) char data[8192], from[8192];
        int main() {
            pmem_persist(data, 1);
            double start = spent();
            for (int i = 0; i < 1000; i++) { pmem_flush(data, 65); pmem_drain(); }
            double flushed = spent();
            for (int i = 0; i < 100; i++) pmem_memcpy_persist(data, from, 4096);
            printf("%f %f\n", (flushed - start) / 1e6, (spent() - flushed) / 1e6);
            return 0;
        }"#,
        &[library.path.to_str().unwrap()],
    );
    let monitor = monitor(common::lines(), Epochs::of(10 * MS), "llc_misses=1000000");
    let outcome = run(&built, &[], monitor);
    let thread = &outcome.report.threads[0];
    assert_eq!((thread.flushed_lines, thread.nt_lines), (2001, 6400));
    let times: Vec<f64> = outcome
        .output
        .split_whitespace()
        .map(|w| w.parse().unwrap())
        .collect();
    // 2000 lines of 10 us, and 6400 lines of 10 us, four at a time.
    assert!((15.0..60.0).contains(&times[0]), "{times:?}");
    assert!((12.0..50.0).contains(&times[1]), "{times:?}");
}
