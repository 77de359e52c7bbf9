//! `nagori suite report`.

use super::args::ReportArgs;
use super::library;
use anyhow::{bail, Context};
use nagori_memtime::Method;
use nagori_plot::{Axis, Chart, Mark, Panel, Point, Rule, Series};
use nagori_suite::analysis::{Row, Table};
use nagori_suite::{archive, page, read_archive, Conditions, Memory, Record, Store};
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::plot::Picture;
use serde_json::json;
use std::fs;

/// Runs the command.
pub fn command(a: &ReportArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let picture = Picture::wanted(a.plot.as_deref(), &a.look)?;
    let (records, from) = match &a.results {
        Some(path) => {
            let bytes = fs::read(path)
                .with_context(|| format!("--results: cannot read {}", path.display()))?;
            (read_archive(path, &bytes)?, path)
        }
        None => (
            Store::all(&a.store.store).context("--store")?,
            &a.store.store,
        ),
    };
    let like = Conditions {
        machine: a.machine.clone(),
        set: a.set.clone(),
        memory: Memory::Method(Method::Dram.to_string()),
        placement: a.placement.clone(),
        malloc: a.malloc,
        timing: a.timing,
        size: a.size,
        seed: None,
    };
    let programs = library(&a.library).programs()?;
    let table = Table::of(&records, &like);
    if table.rows.is_empty() {
        bail!(
            "{}: of {} results none was made under such conditions ({like}, {}, {})",
            from.display(),
            records.len(),
            a.placement,
            a.size
        );
    }
    if let Some(picture) = picture {
        let under = format!(
            "machine {}, placement {}, size {}",
            a.machine, a.placement, a.size
        );
        let (plain, _) = page::apart(&records, &programs);
        picture.draw(&chart(&Table::of(&plain, &like), under)?, messages)?;
    }
    if let Some(path) = &a.save {
        let file = Staged::create(path).context("--save")?;
        file.put(&archive(&records)?).context("--save")?;
    }
    if a.json {
        let of_table: Vec<&Record> = records
            .iter()
            .filter(|r| like.is_like(&r.conditions))
            .collect();
        output::print_json(&json!(of_table))?;
        return Ok(SUCCESS);
    }
    let sections = page::sections(&records, &like, &programs)?;
    match &a.document {
        Some(path) => {
            let old = fs::read_to_string(path)
                .with_context(|| format!("--document: cannot read {}", path.display()))?;
            let new = page::written_into(&old, &sections)?;
            let file = Staged::create(path).context("--document")?;
            file.put(new.as_bytes()).context("--document")?;
            messages.note(&format!("{} is written anew", path.display()));
        }
        None => {
            let text: Vec<String> = sections
                .iter()
                .map(|s| format!("## {}\n\n{}", s.name, s.text))
                .collect();
            output::print(&text.join("\n"))?;
        }
    }
    Ok(SUCCESS)
}

/// The memory by which programs are put in order, and whose requests are shown.
const ORDER: &str = "extended";

/// Run times of all programs under every memory but the first, by which they are divided; below, where there are
/// results of it, requests a second under `extended`, by which programs are in order then.
fn chart(table: &Table, under: String) -> anyhow::Result<Chart> {
    let memories = table.memories.iter().filter(|m| {
        // That one is 1 everywhere.
        let times = table.rows.iter().filter_map(|r| r.time(m));
        times.into_iter().any(|t| (t - 1.0).abs() > 1e-9)
    });
    let ordered = table.ascending(&[ORDER]);
    let rows: Vec<&Row> = if ordered.is_empty() {
        table.rows.iter().collect()
    } else {
        ordered
    };
    let series = memories.map(|m| {
        let point = |r: &&Row| Some(Point::new(r.program.clone(), r.time(m)?));
        Series::new(m, Mark::Points).with(rows.iter().filter_map(point))
    });
    let series: Vec<Series> = series.filter(|s| !s.points.is_empty()).collect();
    if series.is_empty() {
        bail!("--plot: no program has run times under two memories");
    }
    let x = Axis {
        names: rows.iter().map(|r| r.program.clone()).collect(),
        ..Axis::names("")
    };
    let mut panel = Panel::new("", (x.clone(), Axis::new("run time", "").log()), series);
    panel.rules.push(Rule {
        y: 1.0,
        name: "on DRAM".into(),
    });
    let mut panels = vec![panel];
    let requests = |r: &&Row| {
        let f = r.of(ORDER)?;
        Some(Point::new(r.program.clone(), f.requests_per_s()))
    };
    let line = Series::new("requests a second", Mark::Line).with(rows.iter().filter_map(requests));
    if !line.points.is_empty() {
        let title = format!("Requests of NVMM a second under {ORDER}");
        panels.push(Panel::new(
            title,
            (x, Axis::new("requests/s", "")),
            vec![line],
        ));
    }
    Ok(Chart {
        title: "Run times of the suite's programs".into(),
        note: under,
        columns: Some(1),
        panels,
    })
}
