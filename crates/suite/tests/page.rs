//! The page of the study follows from the stored results.

use nagori_memtime::Method;
use nagori_suite::{page, read_archive, Conditions, Library, Malloc, Memory, Size, Timing};
use std::path::Path;

/// `nagori suite report --results suite/results/study.jsonl.zst --document docs/suite.md` would change nothing.
#[test]
fn the_page_is_what_the_results_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("suite/results/study.jsonl.zst");
    let records = read_archive(&path, &std::fs::read(&path).unwrap()).unwrap();
    let like = Conditions {
        machine: "vc707".into(),
        set: Vec::new(),
        memory: Memory::Method(Method::Dram.to_string()),
        placement: "heap".into(),
        malloc: Malloc::Nagori,
        timing: Timing::Region,
        size: Size::Default,
        seed: None,
    };
    let programs = Library::default().programs().unwrap();
    let sections = page::sections(&records, &like, &programs).unwrap();
    let old = std::fs::read_to_string(root.join("docs/suite.md")).unwrap();
    for s in &sections {
        assert!(
            old.contains(&format!("<!-- suite:{} -->", s.name)),
            "{} is not on the page",
            s.name
        );
    }
    assert!(
        page::written_into(&old, &sections).unwrap() == old,
        "write docs/suite.md anew: nagori suite report --results suite/results/study.jsonl.zst --document docs/suite.md"
    );
}
