//! Comparisons of made-up runs.

use super::*;
use nagori_config::{Library, Machine as Description};
use nagori_machine::{Machine, Report};
use nagori_session::problems::Problem;
use nagori_session::program::{Ended, Outcome, Why};

/// The report of a machine that has not run.
fn empty() -> Report {
    let small = Description::load(&Library::default(), "small", &[]).unwrap();
    Machine::new(&small).unwrap().report()
}

fn ended(status: u32) -> Why {
    Why::Outcome(Outcome::Ended(Ended {
        by_signal: false,
        status,
        user_us: 0,
        system_us: 0,
        max_rss_kib: 0,
        minor_faults: 0,
        major_faults: 0,
    }))
}

fn run(why: Why, seed: Option<u64>, elapsed_ps: u64) -> Run {
    Run {
        seed,
        result: RunResult {
            why,
            report: Report {
                elapsed_ps,
                ..empty()
            },
            regions: None,
            problems: Vec::new(),
            strict: false,
            nvmm: Nvmm::Unused,
            timed: true,
            full: Default::default(),
            sums: [0; 2],
            functions: Vec::new(),
            sampled: None,
            start_cpu: None,
        },
    }
}

fn row(method: Method, mut runs: Vec<Run>) -> Row {
    for run in &mut runs {
        run.result.nvmm = Nvmm::Delayed(method);
    }
    Row {
        case: Case {
            variant: Variant::Method(TimingMethod::Delay(method)),
            at: Vec::new(),
        },
        runs,
    }
}

#[test]
fn unfinished_runs_are_marked_and_not_compared() {
    let timeout = || Why::Outcome(Outcome::Timeout);
    let rows = [
        row(Method::Dram, vec![run(ended(0), None, 1000)]),
        row(Method::Fine, vec![run(ended(0), None, 2000)]),
        row(Method::Extended, vec![run(timeout(), None, 3000)]),
    ];
    let text = as_table(&rows);
    assert!(text.contains("extended (timeout)"), "{text}");
    let line = |name: &str| text.lines().find(|l| l.starts_with(name)).unwrap();
    let cells = |name: &str| line(name).split_whitespace().collect::<Vec<_>>();
    // Method, guest time with its unit, run time.
    assert_eq!(cells("fine")[1..4], ["2.000000", "ns", "2.000"]);
    assert_eq!(
        cells("extended")[1..5],
        ["(timeout)", "3.000000", "ns", "-"]
    );
    let json = as_json(&["x".into()], &[None], &rows);
    assert_eq!(json["runs"][1]["run_time"], 2.0);
    assert_eq!(json["runs"][2]["run_time"], Value::Null);
    assert_eq!(json["runs"][2]["complete"], false);
    assert_eq!(json["methods"][2]["run_time"], Value::Null);
    assert_eq!(exit(&rows), nagori_terminal::output::LIMIT);
    // Nothing can be compared with a first run that did not complete.
    let rows = [
        row(Method::Dram, vec![run(timeout(), None, 1000)]),
        row(Method::Fine, vec![run(ended(0), None, 2000)]),
    ];
    let json = as_json(&["x".into()], &[None], &rows);
    assert_eq!(json["runs"][1]["run_time"], Value::Null);
    assert_eq!(exit(&rows), nagori_terminal::output::LIMIT);
}

#[test]
fn runs_without_figures_are_marked_too() {
    let mut rows = [
        row(Method::Dram, vec![run(ended(0), None, 1000)]),
        row(Method::Fine, vec![run(ended(0), None, 2000)]),
    ];
    assert_eq!(exit(&rows), SUCCESS);
    rows[1].runs[0].result.problems.push(Problem {
        what: "warm-up-never-ended",
        message: "too short".into(),
        meaningless: true,
    });
    let text = as_table(&rows);
    assert!(text.contains("fine (warm-up-never-ended)"), "{text}");
    assert_eq!(exit(&rows), MEANINGLESS);
    let json = rows[1].runs[0].result.json();
    assert_eq!(json["summary"], Value::Null);
    assert_eq!(json["problems"][0]["what"], "warm-up-never-ended");
    assert_eq!(json["end"]["exit_code"], 1);
    // The program's own exit code takes precedence.
    rows[1].runs[0].result.why = ended(7);
    assert_eq!(exit(&rows), Exit(7));
}

#[test]
fn repeated_runs_are_compared_seed_by_seed() {
    let runs = |times: [u64; 3]| {
        let all = (1..).zip(times);
        all.map(|(s, t)| run(ended(0), Some(s), t)).collect()
    };
    let rows = [
        row(Method::Dram, runs([1_000_000, 2_000_000, 4_000_000])),
        row(Method::Extended, runs([2_000_000, 4_000_000, 8_400_000])),
    ];
    let seeds = [Some(1), Some(2), Some(3)];
    let json = as_json(&["x".into()], &seeds, &rows);
    assert_eq!(json["seeds"], json!([1, 2, 3]));
    assert_eq!(json["runs"].as_array().unwrap().len(), 6);
    assert_eq!(json["runs"][5]["seed"], 3);
    let ratio = &json["methods"][1]["run_time"];
    assert_eq!(ratio["values"], json!([2.0, 2.0, 2.1]));
    // The ratios vary less than the times.
    let mean = ratio["mean"].as_f64().unwrap();
    let high = ratio["ci95"][1].as_f64().unwrap();
    let half = 4.302_653 * (0.01f64 / 3.0).sqrt() / 3f64.sqrt();
    assert!((mean - 6.1 / 3.0).abs() < 1e-9, "{mean}");
    assert!((high - mean - half).abs() < 1e-6, "{high}");
    assert_eq!(json["methods"][0]["run_time"]["ci95"], json!([1.0, 1.0]));
    let text = as_table(&rows);
    for part in ["3 runs of each method", "guest time, us", "2.033 ± 0.143"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn rows_that_nothing_distinguishes_are_not_compared() {
    let with = |method, nvmm: Nvmm, time| {
        let mut row = row(method, vec![run(ended(0), None, time)]);
        row.runs[0].result.nvmm = nvmm;
        row
    };
    let rows = [
        with(Method::Dram, Nvmm::Unused, 1000),
        with(Method::Fine, Nvmm::Unused, 1000),
        with(Method::Extended, Nvmm::Unused, 1001),
    ];
    let text = as_table(&rows);
    assert!(!text.contains("1.000 "), "{text}");
    for name in ["dram", "fine", "extended"] {
        assert!(text.contains(&format!("{name} (NVMM not used)")), "{text}");
    }
    let told = vain(&rows);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].rows, ["fine", "extended"]);
    assert!(told[0].message.contains("--placement"), "{told:?}");
    let json = as_json(&["x".into()], &[None], &rows);
    for i in 0..3 {
        assert_eq!(json["runs"][i]["run_time"], Value::Null);
        assert_eq!(json["methods"][i]["not_compared"], "NVMM not used");
    }
    // One row that differs makes the first one a measure.
    let rows = [
        with(Method::Dram, Nvmm::Delayed(Method::Dram), 1000),
        with(Method::Fine, Nvmm::Delayed(Method::Dram), 1000),
        with(Method::Extended, Nvmm::Delayed(Method::Extended), 3000),
    ];
    let times = rows.each_ref().map(|r| normalised(&rows, r));
    assert_eq!(times, [Some(vec![1.0]), None, Some(vec![3.0])]);
    assert_eq!(vain(&rows)[0].rows, ["fine"]);
}

#[test]
fn rows_on_varied_machines_are_compared_with_the_very_first() {
    let at = |method, ways: &str, ps| {
        let mut row = row(method, vec![run(ended(0), None, ps)]);
        row.case.at = vec![("l1d.ways".into(), ways.into())];
        row
    };
    let mut rows = [
        at(Method::Dram, "2", 1000),
        at(Method::Dram, "4", 500),
        at(Method::Fine, "2", 3000),
        at(Method::Fine, "4", 1500),
    ];
    let text = as_table(&rows);
    assert!(text.contains("fine, l1d.ways=4"), "{text}");
    let times: Vec<_> = rows
        .iter()
        .map(|r| normalised(&rows, r).unwrap()[0])
        .collect();
    assert_eq!(times, [1.0, 0.5, 3.0, 1.5]);
    // Nothing on NVMM: methods cannot differ, but machines can.
    for row in &mut rows {
        row.runs[0].result.nvmm = Nvmm::Unused;
    }
    let why: Vec<_> = rows.iter().map(|r| in_vain(&rows, r)).collect();
    assert_eq!(
        why,
        [None, None, Some("NVMM not used"), Some("NVMM not used")]
    );
    let vain = vain(&rows);
    assert_eq!(vain.len(), 2, "{vain:?}");
    assert!(vain[1]
        .message
        .starts_with("fine, l1d.ways=4: not compared with dram, l1d.ways=4"));
    let value = as_json(&["p".into()], &[], &rows);
    assert_eq!(value["methods"][3]["vary"]["l1d.ways"], "4");
}
