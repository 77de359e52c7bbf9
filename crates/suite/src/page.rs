//! The page of the study: tables as Markdown, and a document whose parts they are.

use crate::analysis::{kendall, spearman, wrong_pairs, Fit, Regression, Row, Table};
use crate::conditions::{Conditions, Malloc};
use crate::error::{Error, Result};
use crate::figures::{Figures, Part};
use crate::program::{Program, Size};
use crate::published::{Published, PUBLISHED};
use crate::record::Record;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::fmt::Write as _;

/// Methods that add delays.
const DELAYING: [&str; 3] = ["coarse", "fine", "extended"];
/// Run times that differ by less than this share are not put into an order.
const LEAST: f64 = 0.01;
/// Figures that differ by less than this share are the same.
const SAME: f64 = 1e-3;
/// Pairs that a table names.
const PAIRS: usize = 12;

/// The machine with which the study's own is compared.
const SERVER: &str = "server";

/// A part of the page.
pub struct Section {
    /// Its name in a document's comments.
    pub name: &'static str,
    /// Markdown.
    pub text: String,
}

/// All parts: from the results of one study, made under conditions like these, from those of the same with jemalloc and
/// on a server, and from the descriptions of the programs.
pub fn sections(
    records: &[Record],
    like: &Conditions,
    programs: &[Program],
) -> Result<Vec<Section>> {
    let jemalloc = Conditions {
        malloc: Malloc::Jemalloc,
        ..like.clone()
    };
    let server = Conditions {
        machine: SERVER.into(),
        ..like.clone()
    };
    let (records, variants) = &apart(records, programs);
    let page = Page {
        table: &Table::of(records, like),
        variants: &Table::of(variants, like),
        jemalloc: &Table::of(records, &jemalloc),
        programs,
        theirs: Published::parse(PUBLISHED)?,
    };
    let all = [
        ("programs", page.list(like.size)),
        ("times", page.times()),
        ("reasons", page.reasons()),
        ("regions", page.regions()),
        ("methods", page.methods()),
        ("theirs", page.theirs()),
        ("ranks", page.ranks()),
        ("regressions", page.regressions()),
        ("pairs", page.pairs()),
        ("memories", memories(page.table)),
        ("server", memories(&Table::of(records, &server))),
        ("allocators", page.allocators()),
        ("threads", page.threads()),
        ("missing", page.missing()),
    ];
    Ok(all.map(|(name, text)| Section { name, text }).into())
}

/// Records of the programs themselves, and of their variants.
pub fn apart(records: &[Record], programs: &[Program]) -> (Vec<Record>, Vec<Record>) {
    let is_variant = |r: &Record| {
        let program = programs.iter().find(|p| p.name == r.program);
        program.is_some_and(|p| p.variant_of.is_some())
    };
    records.iter().cloned().partition(|r| !is_variant(r))
}

/// A document with its parts written anew: each stands between `<!-- suite:NAME -->` and `<!-- suite:end -->`.
pub fn written_into(document: &str, sections: &[Section]) -> Result<String> {
    const END: &str = "<!-- suite:end -->";
    let mut text = document.to_string();
    for s in sections {
        let begin = format!("<!-- suite:{} -->", s.name);
        let Some(from) = text.find(&begin).map(|i| i + begin.len()) else {
            continue;
        };
        let Some(to) = text[from..].find(END).map(|i| from + i) else {
            return Err(Error::Request(format!(
                "the document has {begin}, but no {END} after it"
            )));
        };
        text.replace_range(from..to, &format!("\n\n{}\n", s.text));
    }
    Ok(text)
}

struct Page<'a> {
    table: &'a Table,
    jemalloc: &'a Table,
    /// Of programs with other threads.
    variants: &'a Table,
    programs: &'a [Program],
    theirs: Vec<Published>,
}

fn number(v: Option<f64>, digits: usize) -> String {
    v.map_or("-".into(), |v| format!("{v:.digits$}"))
}

fn grouped(v: f64) -> String {
    let digits = format!("{v:.0}");
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A table; all columns but the first `left` are aligned to the right.
fn markdown(head: &[String], left: usize, rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let under: Vec<String> = (0..head.len())
        .map(|i| if i < left { "---" } else { "--:" }.into())
        .collect();
    let mut out = line(head) + &line(&under);
    rows.iter().for_each(|r| out.push_str(&line(r)));
    out
}

fn head(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|c| c.to_string()).collect()
}

/// Mean and, with several values, half of the 95 % interval (Student's t).
fn mean(values: &[f64]) -> String {
    let n = values.len();
    if n == 0 {
        return "-".into();
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    if n < 2 {
        return format!("{mean:.3}");
    }
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let t =
        StudentsT::new(0.0, 1.0, (n - 1) as f64).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975));
    format!("{mean:.3} ± {:.3}", t * (variance / n as f64).sqrt())
}

/// The memories that are no methods of delay.
fn models(table: &Table) -> Vec<&str> {
    let all = table.memories.iter().map(String::as_str);
    all.filter(|m| *m != "dram" && !DELAYING.contains(m))
        .collect()
}

/// What programs cost under memories of their own, in ascending order.
fn memories(table: &Table) -> String {
    let names = head(&[
        "program",
        "memory",
        "time",
        "requests/s",
        "ACT/REQ",
        "row hits",
        "read ns",
        "write ns",
        "energy, nJ a request",
        "most writes of a unit",
    ]);
    let mut rows = Vec::new();
    for m in models(table) {
        for r in table.ascending(&[m]) {
            let Some(f) = r.of(m) else { continue };
            let n = &f.nvmm;
            let energy = n
                .energy_pj
                .filter(|_| n.requests() > 0)
                .map(|e| e / 1000.0 / n.requests() as f64);
            rows.push(vec![
                r.program.clone(),
                m.into(),
                number(r.time(m), 2),
                grouped(f.requests_per_s()),
                number(n.act_per_req(), 2),
                number(n.row_hit_rate(), 2),
                number(n.read_ns, 0),
                number(n.write_ns, 0),
                number(energy, 1),
                n.most_writes.map_or("-".into(), |w| grouped(w as f64)),
            ]);
        }
    }
    markdown(&names, 2, &rows)
}

impl Page<'_> {
    fn program(&self, name: &str) -> Option<&Program> {
        self.programs.iter().find(|p| p.name == name)
    }

    fn stands_for(&self, row: &Row) -> String {
        let of = self
            .program(&row.program)
            .and_then(|p| p.stands_for.clone());
        of.unwrap_or("-".into())
    }

    /// Nanoseconds by which a request is dearer than under `dram`, on average.
    fn added(&self, row: &Row, memory: &str) -> Option<f64> {
        let (base, f) = (row.of("dram")?, row.of(memory)?);
        let requests = Some(f.nvmm.requests()).filter(|n| *n > 0)?;
        Some((f.time_ps as f64 - base.time_ps as f64) / 1000.0 / requests as f64)
    }

    fn list(&self, size: Size) -> String {
        let rows: Vec<Vec<String>> = self
            .programs
            .iter()
            .map(|p| {
                let mut all = self.table.rows.iter().chain(&self.variants.rows);
                let row = all.find(|r| r.program == p.name);
                let figures = row.and_then(|r| r.of("dram").or(r.figures.values().next()));
                let version = |name: &String| row.and_then(|r| r.versions.get(name).cloned());
                let from = match p.packages.first() {
                    Some(name) => format!("{name} {}", version(name).unwrap_or_default()),
                    None => "ours".into(),
                };
                vec![
                    p.name.clone(),
                    p.title.clone(),
                    p.stands_for.clone().unwrap_or("-".into()),
                    from.trim().into(),
                    p.threads.to_string(),
                    figures.map_or("-".into(), |f| {
                        format!("{:.1}", f.instructions as f64 / 1e6)
                    }),
                    figures.map_or("-".into(), |f| {
                        format!("{:.1}", f.footprint_kib as f64 / 1024.0)
                    }),
                ]
            })
            .collect();
        let column = format!("region, million instructions ({size})");
        let head = head(&[
            "program",
            "what",
            "stands for",
            "package",
            "threads",
            &column,
            "MiB resident",
        ]);
        markdown(&head, 4, &rows)
    }

    fn times(&self) -> String {
        let models = models(self.table);
        let mut names = head(&[
            "program",
            "stands for",
            "requests/s",
            "coarse",
            "fine",
            "extended",
        ]);
        names.extend(models.iter().map(|m| m.to_string()));
        let rows: Vec<Vec<String>> = self
            .table
            .ascending(&["extended"])
            .iter()
            .map(|r| {
                let requests = r.of("extended").map(Figures::requests_per_s);
                let mut cells = vec![
                    r.program.clone(),
                    self.stands_for(r),
                    requests.map_or("-".into(), grouped),
                ];
                for m in DELAYING.iter().chain(&models) {
                    cells.push(r.times.get(*m).map_or("-".into(), |t| mean(t)));
                }
                cells
            })
            .collect();
        markdown(&names, 2, &rows)
    }

    fn reasons(&self) -> String {
        let names = head(&[
            "program",
            "requests/s",
            "ns added a request, coarse",
            "extended",
            "ACT/REQ",
            "row hits",
            "BANK_PARA",
            "reads a write",
            "read ns",
            "CPI",
            "L1D misses, 1000 instructions",
        ]);
        let rows: Vec<Vec<String>> = self
            .table
            .ascending(&["extended"])
            .iter()
            .filter_map(|r| {
                let f = r.of("extended")?;
                let each = |n: u64, of: u64| (of > 0).then(|| n as f64 / of as f64);
                Some(vec![
                    r.program.clone(),
                    grouped(f.requests_per_s()),
                    number(self.added(r, "coarse"), 0),
                    number(self.added(r, "extended"), 0),
                    number(f.nvmm.act_per_req(), 2),
                    number(f.nvmm.row_hit_rate(), 2),
                    number(f.nvmm.bank_para(), 2),
                    number(f.nvmm.reads_per_write(), 2),
                    number(f.nvmm.read_ns, 0),
                    number(each(f.busy_cycles, f.instructions), 2),
                    number(each(f.l1d_misses * 1000, f.instructions), 1),
                ])
            })
            .collect();
        markdown(&names, 1, &rows)
    }

    /// What DRAM and NVMM see of each program under `extended`.
    fn regions(&self) -> String {
        let names = head(&[
            "program",
            "requests/s, dram",
            "nvmm",
            "ACT/REQ, dram",
            "nvmm",
            "row hits, dram",
            "nvmm",
            "BANK_PARA, dram",
            "nvmm",
            "reads a write, dram",
            "nvmm",
        ]);
        let mut rows = Vec::new();
        for r in self.table.ascending(&["extended"]) {
            let Some(f) = r.of("extended") else { continue };
            let seconds = f.seconds();
            let rate = |p: &Part| (seconds > 0.0).then(|| p.requests() as f64 / seconds);
            let mut cells = vec![r.program.clone()];
            cells.extend([&f.dram, &f.nvmm].map(|p| rate(p).map_or("-".into(), grouped)));
            let figures: [fn(&Part) -> Option<f64>; 4] = [
                Part::act_per_req,
                Part::row_hit_rate,
                Part::bank_para,
                Part::reads_per_write,
            ];
            for figure in figures {
                cells.extend([&f.dram, &f.nvmm].map(|p| number(figure(p), 2)));
            }
            rows.push(cells);
        }
        markdown(&names, 1, &rows)
    }

    fn methods(&self) -> String {
        let names = head(&[
            "program",
            "method",
            "time",
            "requests/s",
            "ACT/REQ",
            "row hits",
            "BANK_PARA",
        ]);
        let mut rows = Vec::new();
        for r in self.table.ascending(&["extended"]) {
            for m in std::iter::once(&"dram").chain(&DELAYING) {
                let Some(f) = r.of(m) else { continue };
                rows.push(vec![
                    r.program.clone(),
                    m.to_string(),
                    number(r.time(m), 2),
                    grouped(f.requests_per_s()),
                    number(f.nvmm.act_per_req(), 4),
                    number(f.nvmm.row_hit_rate(), 4),
                    number(f.nvmm.bank_para(), 2),
                ]);
            }
        }
        markdown(&names, 2, &rows)
    }

    /// Their program and the one of ours that stands for it, figure by figure.
    fn theirs(&self) -> String {
        let names = head(&[
            "theirs",
            "ours",
            "time under extended",
            "requests/s",
            "ACT/REQ",
            "BANK_PARA",
            "reads a write",
        ]);
        let mut rows = Vec::new();
        let order = self.theirs.iter().filter(|p| p.table == 7);
        for p in order {
            let of = |table: u32| {
                self.theirs
                    .iter()
                    .find(|q| q.table == table && q.program == p.program && q.method == "extended")
            };
            let stands = |r: &&Row| self.stands_for(r) == p.program;
            let ours = self.table.rows.iter().find(stands);
            let figures = ours.and_then(|r| r.of("extended"));
            let nvmm = figures.map(|f| &f.nvmm);
            let requests = of(8)
                .and_then(|q| q.requests_per_s)
                .or(of(9).and_then(|q| q.requests_per_s));
            let both = |theirs: Option<f64>, ours: Option<f64>, digits| {
                format!("{} / {}", number(theirs, digits), number(ours, digits))
            };
            rows.push(vec![
                p.program.clone(),
                ours.map_or("-".into(), |r| r.program.clone()),
                both(
                    of(8).and_then(|q| q.time),
                    ours.and_then(|r| r.time("extended")),
                    2,
                ),
                format!(
                    "{} / {}",
                    requests.map_or("-".into(), grouped),
                    figures.map_or("-".into(), |f| grouped(f.requests_per_s()))
                ),
                both(p.act_per_req, nvmm.and_then(Part::act_per_req), 2),
                both(p.bank_para, nvmm.and_then(Part::bank_para), 2),
                both(
                    of(9).and_then(|q| q.reads_per_write),
                    nvmm.and_then(Part::reads_per_write),
                    2,
                ),
            ]);
        }
        markdown(&names, 2, &rows)
    }

    /// Run times and requests a second under a memory.
    fn pairs_of(&self, memory: &str) -> (Vec<f64>, Vec<f64>) {
        let rows = self.table.ascending(&[memory]);
        let of = |r: &&Row| Some((r.time(memory)?, r.of(memory)?.requests_per_s()));
        rows.iter().filter_map(of).unzip()
    }

    fn ranks(&self) -> String {
        let names = head(&[
            "method or memory",
            "programs",
            "Spearman",
            "Kendall",
            "theirs: programs",
            "Spearman",
            "Kendall",
        ]);
        let mut rows = Vec::new();
        for m in DELAYING.iter().copied().chain(models(self.table)) {
            let (time, requests) = self.pairs_of(m);
            let of = |p: &Published| Some((p.time?, p.requests_per_s?));
            let published = self.theirs.iter().filter(|p| p.table == 8 && p.method == m);
            let (their_time, their_requests): (Vec<f64>, Vec<f64>) =
                published.filter_map(of).unzip();
            rows.push(vec![
                m.to_string(),
                time.len().to_string(),
                number(spearman(&time, &requests), 2),
                number(kendall(&time, &requests), 2),
                their_time.len().to_string(),
                number(spearman(&their_time, &their_requests), 2),
                number(kendall(&their_time, &their_requests), 2),
            ]);
        }
        markdown(&names, 1, &rows)
    }

    /// What a program adds to the run time, by figures: of `dram` the requests, of the method what it makes of them.
    fn model(&self, memory: &str, which: Explained) -> Option<Model> {
        let mut programs = Vec::new();
        let mut rows: Vec<Vec<f64>> = Vec::new();
        let mut values = Vec::new();
        for r in self.table.ascending(&["dram", memory]) {
            let (base, f) = (r.of("dram")?, r.of(memory)?);
            let millions = base.requests_per_s() / 1e6;
            let (Some(act), Some(write)) = (f.nvmm.act_per_req(), f.nvmm.write_share()) else {
                continue;
            };
            let bank = f.nvmm.bank_para()?;
            rows.push(match which {
                Explained::Requests => vec![millions],
                Explained::Sum => vec![millions, act, bank, write],
                Explained::Products => {
                    vec![millions, millions * act, millions * bank, millions * write]
                }
            });
            values.push(r.time(memory)? - 1.0);
            programs.push(r.program.clone());
        }
        // What is the same for all programs explains nothing, and a product with it is no other figure.
        let close = |a: f64, b: f64| (a - b).abs() <= SAME * b.abs();
        let first = rows.first()?.clone();
        let varies = |c: usize| rows.iter().any(|r| !close(r[c], first[c]));
        let differs = |c: usize| rows.iter().any(|r| !close(r[c], r[0]));
        let kept: Vec<usize> = (0..first.len())
            .filter(|c| *c == 0 || (varies(*c) && differs(*c)))
            .collect();
        let all = which.names();
        let names: Vec<String> = kept.iter().map(|c| all[*c].clone()).collect();
        let regression = Regression {
            names: names.clone(),
            rows: rows
                .iter()
                .map(|r| kept.iter().map(|c| r[*c]).collect())
                .collect(),
            values,
        };
        Some(Model {
            programs,
            names,
            fit: regression.fit()?,
        })
    }

    fn regressions(&self) -> String {
        let names = head(&[
            "method",
            "explained by",
            "R²",
            "R², left out",
            "error, left out",
            "constant and factors",
            "largest residuals",
        ]);
        let mut rows = Vec::new();
        for m in DELAYING {
            for which in [Explained::Requests, Explained::Sum, Explained::Products] {
                let Some(Model {
                    programs,
                    names,
                    fit,
                }) = self.model(m, which)
                else {
                    let none = std::iter::repeat_n("-".to_string(), 5);
                    rows.push(
                        [m.to_string(), which.name().to_string()]
                            .into_iter()
                            .chain(none)
                            .collect(),
                    );
                    continue;
                };
                let mut worst: Vec<(f64, &String)> =
                    fit.residuals.iter().copied().zip(&programs).collect();
                worst.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()).then_with(|| a.1.cmp(b.1)));
                let worst: Vec<String> = worst
                    .iter()
                    .take(3)
                    .map(|(e, p)| format!("{p} {e:+.2}"))
                    .collect();
                let constant = fit.factors.first().map(|f| format!("{f:.2}"));
                let factors = fit
                    .factors
                    .iter()
                    .skip(1)
                    .zip(&names)
                    .map(|(f, n)| format!("{n} {f:+.2}"));
                let factors: Vec<String> = constant.into_iter().chain(factors).collect();
                rows.push(vec![
                    m.into(),
                    which.name().into(),
                    format!("{:.3}", fit.r2),
                    format!("{:.3}", fit.r2_left_out),
                    format!("{:.3}", fit.error_left_out),
                    factors.join(", "),
                    worst.join(", "),
                ]);
            }
        }
        markdown(&names, 2, &rows)
    }

    fn pairs(&self) -> String {
        let rows = self.table.ascending(&["coarse", "fine", "extended"]);
        let times = |m: &str| -> Vec<f64> { rows.iter().filter_map(|r| r.time(m)).collect() };
        let extended = times("extended");
        let mut out = String::new();
        let all = rows.len() * rows.len().saturating_sub(1) / 2;
        let mut lines = Vec::new();
        for m in ["coarse", "fine"] {
            let other = times(m);
            let wrong = wrong_pairs(&extended, &other, LEAST);
            let _ = writeln!(out, "- {m}: {} of {all} pairs", wrong.len());
            for (a, b) in wrong.iter().take(PAIRS) {
                lines.push(vec![
                    m.to_string(),
                    rows[*a].program.clone(),
                    rows[*b].program.clone(),
                    format!("{:.2}, {:.2}", extended[*a], extended[*b]),
                    format!("{:.2}, {:.2}", other[*a], other[*b]),
                ]);
            }
        }
        let names = head(&[
            "method",
            "less under extended",
            "more under extended",
            "extended",
            "the method",
        ]);
        out + "\n" + &markdown(&names, 3, &lines)
    }

    /// Seconds and requests with both allocators, where there are results with both. A region that begins at a number
    /// of instructions is another part of the program with each.
    fn allocators(&self) -> String {
        let names = head(&[
            "program",
            "method",
            "ours, s",
            "jemalloc, s",
            "jemalloc / ours",
            "requests, jemalloc / ours",
            "ACT/REQ, ours",
            "ACT/REQ, jemalloc",
        ]);
        let mut rows = Vec::new();
        for row in self.jemalloc.rows.iter().filter(|r| self.is_marked(r)) {
            let Some(ours) = self.table.rows.iter().find(|r| r.program == row.program) else {
                continue;
            };
            for m in &self.jemalloc.memories {
                let (Some(a), Some(b)) = (ours.of(m), row.of(m)) else {
                    continue;
                };
                let ratio = |b: f64, a: f64| (a > 0.0).then(|| b / a);
                rows.push(vec![
                    row.program.clone(),
                    m.clone(),
                    format!("{:.3}", a.seconds()),
                    format!("{:.3}", b.seconds()),
                    number(ratio(b.seconds(), a.seconds()), 2),
                    number(ratio(b.nvmm.requests() as f64, a.nvmm.requests() as f64), 2),
                    number(a.nvmm.act_per_req(), 2),
                    number(b.nvmm.act_per_req(), 2),
                ]);
            }
        }
        markdown(&names, 2, &rows)
    }

    /// Programs with one thread and with several, where there are results of both. How much faster they are is not said
    /// where regions begin at a number of instructions.
    fn threads(&self) -> String {
        let names = head(&[
            "program",
            "threads",
            "coarse",
            "fine",
            "extended",
            "requests/s",
            "ACT/REQ",
            "BANK_PARA",
            "read ns",
            "speed-up: dram",
            "coarse",
            "extended",
        ]);
        let mut rows = Vec::new();
        for variant in self.variants.ascending(&["extended"]) {
            let program = self.program(&variant.program);
            let of = program.and_then(|p| p.variant_of.as_ref());
            let Some(one) = self.table.rows.iter().find(|r| Some(&r.program) == of) else {
                continue;
            };
            let by_marker = self.is_marked(variant);
            for row in [one, variant] {
                let f = row.of("extended");
                let nvmm = f.map(|f| &f.nvmm);
                let threads = self.program(&row.program);
                let mut cells = vec![
                    row.program.clone(),
                    threads.map_or("-".into(), |p| p.threads.to_string()),
                ];
                cells.extend(DELAYING.map(|m| row.times.get(m).map_or("-".into(), |t| mean(t))));
                cells.extend([
                    f.map_or("-".into(), |f| grouped(f.requests_per_s())),
                    number(nvmm.and_then(Part::act_per_req), 2),
                    number(nvmm.and_then(Part::bank_para), 2),
                    number(nvmm.and_then(|n| n.read_ns), 0),
                ]);
                let faster = |m: &str| {
                    let compared = by_marker && row.program != one.program;
                    let (a, b) = (one.of(m)?.seconds(), row.of(m)?.seconds());
                    (compared && b > 0.0).then(|| a / b)
                };
                cells.extend(["dram", "coarse", "extended"].map(|m| number(faster(m), 2)));
                rows.push(cells);
            }
        }
        markdown(&names, 1, &rows)
    }

    /// Whether markers begin the region of a row's program, so that it is the same one in another process.
    fn is_marked(&self, r: &Row) -> bool {
        let sizes = self.program(&r.program).map(|p| &p.sizes);
        sizes.is_some_and(|s| s.values().all(|s| s.begin.is_none()))
    }

    fn missing(&self) -> String {
        let mut out = String::new();
        let mut all = 0;
        for p in self.programs.iter().filter(|p| p.variant_of.is_none()) {
            let row = self.table.rows.iter().find(|r| r.program == p.name);
            let there = |m: &&String| row.is_some_and(|r| r.figures.contains_key(*m));
            let failure = |m: &&String| row.and_then(|r| r.failures.get(*m));
            all += self.table.memories.iter().filter(there).count();
            let not: Vec<&String> = self.table.memories.iter().filter(|m| !there(m)).collect();
            for (m, why) in not.iter().filter_map(|m| Some((m, failure(m)?))) {
                let _ = writeln!(out, "- {}, {m}: failed: {why}", p.name);
            }
            let names: Vec<&str> = not
                .iter()
                .filter(|m| failure(m).is_none())
                .map(|m| m.as_str())
                .collect();
            if !names.is_empty() {
                let _ = writeln!(out, "- {}: not run under {}", p.name, names.join(", "));
            }
        }
        let seconds: f64 = self.table.rows.iter().map(|r| r.host_seconds).sum();
        let models = match self.table.models.len() {
            0 | 1 => String::new(),
            n => format!("The results are of {n} versions of the emulator's model.\n"),
        };
        let none = if out.is_empty() {
            "Nothing is missing.\n"
        } else {
            ""
        };
        format!(
            "{all} runs; together they took {:.0} minutes of a host that did other work, too.\n{models}\n{none}{out}",
            seconds / 60.0
        )
    }
}

/// A regression's result, and what it is of.
struct Model {
    programs: Vec<String>,
    /// What it explains the run time by.
    names: Vec<String>,
    fit: Fit,
}

/// What a run time is explained by.
#[derive(Debug, Clone, Copy)]
enum Explained {
    /// Requests a second alone.
    Requests,
    /// Requests a second, and what they are, added.
    Sum,
    /// Requests a second, alone and multiplied by what they are.
    Products,
}

impl Explained {
    fn name(self) -> &'static str {
        match self {
            Explained::Requests => "requests",
            Explained::Sum => "requests + ACT/REQ + BANK_PARA + write share",
            Explained::Products => "requests × (1, ACT/REQ, BANK_PARA, write share)",
        }
    }

    fn names(self) -> Vec<String> {
        let names: &[&str] = match self {
            Explained::Requests => &["requests"],
            Explained::Sum => &["requests", "ACT/REQ", "BANK_PARA", "writes"],
            Explained::Products => &["requests", "× ACT/REQ", "× BANK_PARA", "× write share"],
        };
        head(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_document_are_written_anew() {
        let sections = [
            Section {
                name: "a",
                text: "new\n".into(),
            },
            Section {
                name: "b",
                text: "other\n".into(),
            },
        ];
        let old = "x\n<!-- suite:a -->\nold\n<!-- suite:end -->\ny\n";
        let new = written_into(old, &sections).unwrap();
        assert_eq!(new, "x\n<!-- suite:a -->\n\nnew\n\n<!-- suite:end -->\ny\n");
        assert_eq!(written_into(&new, &sections).unwrap(), new);
        assert!(written_into("<!-- suite:a -->", &sections).is_err());
    }

    #[test]
    fn numbers_are_shown_as_people_write_them() {
        assert_eq!(
            [grouped(1234567.0), grouped(999.0), grouped(0.0)],
            ["1,234,567", "999", "0"]
        );
        assert_eq!(mean(&[1.5]), "1.500");
        assert_eq!(mean(&[1.0, 1.0]), "1.000 ± 0.000");
        // Student's t for two values is 12.706; the standard error of 1 and 2 is 0.5.
        assert_eq!(mean(&[1.0, 2.0]), "1.500 ± 6.353");
    }
}
