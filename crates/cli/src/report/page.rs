//! A document as one HTML file.

use super::document::{Block, Document, Section, Table};
use anyhow::Context;
use nagori_plot::{Chart, Look};
use serde_json::Value;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
/// Widths of pictures, for wide and for narrow pages.
const BROAD: f64 = 1060.0;
const NARROW: f64 = 358.0;

/// The page.
pub fn html(d: &Document) -> anyhow::Result<String> {
    let title = escape(&d.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"nagori \
             {}\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n",
        env!("CARGO_PKG_VERSION")
    );
    if !d.subtitle.is_empty() {
        // Writing to a string does not fail.
        let _ = writeln!(out, "<p class=\"faint\">{}</p>", inline(&d.subtitle));
    }
    for (i, s) in d.sections.iter().enumerate() {
        section(&mut out, s).with_context(|| format!("sections[{i}]"))?;
    }
    out.push_str("</body>\n</html>\n");
    Ok(out)
}

fn section(out: &mut String, s: &Section) -> anyhow::Result<()> {
    let title = inline(&s.title);
    match s.folded {
        true => {
            let _ = writeln!(out, "<details>\n<summary>{title}</summary>");
        }
        false if title.is_empty() => out.push_str("<section>\n"),
        false => {
            let _ = writeln!(out, "<section>\n<h2>{title}</h2>");
        }
    }
    for (i, b) in s.blocks.iter().enumerate() {
        block(out, b).with_context(|| format!("blocks[{i}]"))?;
    }
    out.push_str(if s.folded {
        "</details>\n"
    } else {
        "</section>\n"
    });
    Ok(())
}

fn block(out: &mut String, b: &Block) -> anyhow::Result<()> {
    match b {
        Block::Text(t) => {
            for p in t.split("\n\n").filter(|p| !p.trim().is_empty()) {
                let _ = writeln!(out, "<p>{}</p>", inline(p.trim()));
            }
        }
        Block::Code(c) => {
            let _ = writeln!(out, "<pre tabindex=\"0\"><code>{}</code></pre>", escape(c));
        }
        Block::Facts(facts) => {
            out.push_str("<dl>\n");
            for (name, value) in facts {
                let _ = writeln!(
                    out,
                    "<dt>{}</dt><dd>{}</dd>",
                    escape(name),
                    inline(&cell(value))
                );
            }
            out.push_str("</dl>\n");
        }
        Block::Table(t) => table(out, t),
        Block::Chart(c) => chart(out, c)?,
        Block::Svg(svg, text) => {
            let _ = writeln!(
                out,
                "<figure>\n{svg}\n<figcaption>{}</figcaption>\n</figure>",
                inline(text)
            );
        }
    }
    Ok(())
}

fn chart(out: &mut String, c: &Chart) -> anyhow::Result<()> {
    out.push_str("<figure>\n");
    for (class, width) in [("broad", BROAD), ("narrow", NARROW)] {
        let look = Look {
            // A single panel would be wider than its data deserve.
            width: Some(if c.panels.len() == 1 {
                width.min(760.0)
            } else {
                width
            }),
            themed: true,
            text: if class == "narrow" { 13.0 } else { 14.0 },
            ..Look::default()
        };
        let svg = nagori_plot::svg(c, &look)?;
        let _ = writeln!(out, "<div class=\"{class}\">\n{svg}</div>");
    }
    let spec = nagori_plot::vega_lite(c).to_string();
    let _ = writeln!(
        out,
        "<figcaption><a download=\"chart.vl.json\" href=\"data:application/json,{}\">data and \
            Vega-Lite</a></figcaption>\n</figure>",
        percent(&spec)
    );
    Ok(())
}

fn table(out: &mut String, t: &Table) {
    let number = |i: usize| {
        let mut cells = t
            .rows
            .iter()
            .map(|r| &r[i])
            .filter(|v| !v.is_null())
            .peekable();
        cells.peek().is_some() && cells.all(is_number)
    };
    let classes: Vec<&str> = { 0..t.columns.len() }
        .map(|i| if number(i) { " class=\"number\"" } else { "" })
        .collect();
    out.push_str("<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr>");
    for (c, class) in t.columns.iter().zip(&classes) {
        let _ = write!(out, "<th{class} scope=\"col\">{}</th>", escape(c));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &t.rows {
        out.push_str("<tr>");
        for (v, class) in row.iter().zip(&classes) {
            let _ = write!(out, "<td{class}>{}</td>", escape(&cell(v)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    if !t.note.is_empty() {
        let _ = writeln!(out, "<p class=\"faint\">{}</p>", inline(&t.note));
    }
}

/// Numbers, and strings that are written like some, with units and intervals.
fn is_number(v: &Value) -> bool {
    match v {
        Value::Number(_) => true,
        Value::String(s) => s == "-" || s.starts_with(|c: char| c.is_ascii_digit()),
        _ => false,
    }
}

fn cell(v: &Value) -> String {
    match v {
        Value::Null => "-".into(),
        Value::String(s) => s.clone(),
        v => v.to_string(),
    }
}

/// Text with `code`.
fn inline(text: &str) -> String {
    let mut out = String::new();
    for (i, part) in text.split('`').enumerate() {
        match i % 2 {
            0 => out.push_str(&escape(part)),
            _ => {
                let _ = write!(out, "<code>{}</code>", escape(part));
            }
        }
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// For addresses.
fn percent(text: &str) -> String {
    let mut out = String::new();
    for b in text.bytes() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b',' | b':' => {
                out.push(b as char)
            }
            _ => {
                let _ = write!(out, "%{b:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagori_plot::{Axis, Mark, Panel, Point, Series};
    use serde_json::json;

    #[test]
    fn pages_have_everything_and_load_nothing() {
        let bars = Series::new("", Mark::Bars).with([Point::new("ddr4", 1.0)]);
        let chart = Chart::of(Panel::new(
            "",
            (Axis::names("memory"), Axis::new("time", "s")),
            vec![bars],
        ));
        let table = Table {
            columns: vec!["name".into(), "value".into()],
            rows: vec![
                vec![json!("<b>"), json!(1.5)],
                vec![json!("c"), json!(null)],
            ],
            note: "a note".into(),
        };
        let d = Document::new("A & B", "with `code`").with(
            "One",
            false,
            vec![
                Block::Text("first\n\nsecond <script>".into()),
                Block::Table(table),
                Block::Chart(Box::new(chart)),
                Block::Facts(vec![("version".into(), json!("0.1"))]),
            ],
        );
        let page = html(&d.with("Two", true, vec![Block::Code("ls".into())])).unwrap();
        for part in [
            "<h1>A &amp; B</h1>",
            "<code>code</code>",
            "<p>first</p>",
            "second &lt;script&gt;",
            "<td>&lt;b&gt;</td>",
            "<td class=\"number\">1.5</td>",
            "<td class=\"number\">-</td>",
            "memory",
            "class=\"narrow\"",
            "<details>",
            "<dt>version</dt>",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("<link"));
        let outside =
            page.matches("http").count() - page.matches("http://www.w3.org/2000/svg").count();
        // The name of Vega-Lite's schema, in the data that can be saved.
        assert_eq!(outside, page.matches("https:%2F%2Fvega.github.io").count());
    }
}
