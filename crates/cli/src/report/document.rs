//! What a report says: sections of texts, tables, charts. Programs write it as JSON (docs/report.md).

use anyhow::{bail, ensure, Context};
use nagori_plot::Chart;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a document calls itself.
pub const FORMAT: &str = "nagori-document";

/// A report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// [`FORMAT`].
    pub format: &'static str,
    /// Its heading.
    pub title: String,
    /// Below the heading.
    pub subtitle: String,
    /// Its parts.
    pub sections: Vec<Section>,
}

/// A part with a heading.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// Closed until the reader opens it.
    pub folded: bool,
    /// In their order.
    pub blocks: Vec<Block>,
}

/// Something to read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Block {
    /// Paragraphs, apart by empty lines.
    Text(String),
    /// A table.
    Table(Table),
    /// A chart.
    Chart(Box<Chart>),
    /// Names and what they are.
    Facts(Vec<(String, Value)>),
    /// As it is.
    Code(String),
    /// A picture, and what it shows.
    Svg(String, String),
}

/// A table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// Cells: strings, numbers, booleans, null.
    pub rows: Vec<Vec<Value>>,
    /// Below the table.
    #[serde(default)]
    pub note: String,
}

/// A block as it is written: one of these.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    text: Option<String>,
    table: Option<Table>,
    chart: Option<Chart>,
    facts: Option<Vec<(String, Value)>>,
    code: Option<String>,
    svg: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSection {
    #[serde(default)]
    title: String,
    #[serde(default)]
    folded: bool,
    blocks: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenDocument {
    format: String,
    title: String,
    #[serde(default)]
    subtitle: String,
    sections: Vec<Value>,
}

impl Document {
    /// A document without sections.
    pub fn new(title: impl Into<String>, subtitle: impl Into<String>) -> Document {
        Document {
            format: FORMAT,
            title: title.into(),
            subtitle: subtitle.into(),
            sections: Vec::new(),
        }
    }

    /// With another section, if there is something in it.
    pub fn with(mut self, title: &str, folded: bool, blocks: Vec<Block>) -> Document {
        if !blocks.is_empty() {
            self.sections.push(Section {
                title: title.into(),
                folded,
                blocks,
            });
        }
        self
    }

    /// Reads one; an error names the block that is wrong.
    pub fn read(value: Value) -> anyhow::Result<Document> {
        let written: WrittenDocument = serde_json::from_value(value)?;
        ensure!(
            written.format == FORMAT,
            "format: {:?}; expected {FORMAT:?}",
            written.format
        );
        let mut all = Document::new(written.title, written.subtitle);
        for (i, section) in written.sections.into_iter().enumerate() {
            let place = format!("sections[{i}]");
            let s: WrittenSection = serde_json::from_value(section).context(place.clone())?;
            let blocks = { s.blocks.into_iter().enumerate() }
                .map(|(j, b)| block(b).with_context(|| format!("{place}.blocks[{j}]")));
            all.sections.push(Section {
                title: s.title,
                folded: s.folded,
                blocks: blocks.collect::<anyhow::Result<_>>()?,
            });
        }
        Ok(all)
    }
}

fn block(value: Value) -> anyhow::Result<Block> {
    let w: Written = serde_json::from_value(value)?;
    let mut found: Vec<Block> = Vec::new();
    if let Some(svg) = w.svg {
        check_svg(&svg).context("svg")?;
        found.push(Block::Svg(svg, w.text.unwrap_or_default()));
    } else {
        found.extend(w.text.map(Block::Text));
    }
    if let Some(table) = w.table {
        let n = table.columns.len();
        let odd = table.rows.iter().position(|r| r.len() != n);
        if let Some(i) = odd {
            bail!(
                "table: rows[{i}] has {} cells; there are {n} columns",
                table.rows[i].len()
            );
        }
        let nested = |v: &Value| v.is_array() || v.is_object();
        if table.rows.iter().flatten().any(nested) {
            bail!(
                "table: a cell is a list or an object; expected a string, number, boolean or null"
            );
        }
        found.push(Block::Table(table));
    }
    if let Some(chart) = w.chart {
        chart.check().context("chart")?;
        found.push(Block::Chart(Box::new(chart)));
    }
    found.extend(w.facts.map(Block::Facts));
    found.extend(w.code.map(Block::Code));
    match found.len() {
        1 => Ok(found.remove(0)),
        n => bail!("it has {n} of text, table, chart, facts, code, svg; expected one"),
    }
}

/// A picture is part of the page: it must not load anything, nor run.
fn check_svg(svg: &str) -> anyhow::Result<()> {
    let low = svg.to_ascii_lowercase();
    ensure!(
        low.trim_start().starts_with("<svg"),
        "it does not begin with <svg"
    );
    ensure!(
        low.trim_end().ends_with("</svg>"),
        "it does not end with </svg>"
    );
    for part in [
        "<script",
        "<foreignobject",
        "<image",
        "<!",
        "<?",
        "javascript:",
        "@import",
        "<iframe",
        "<use",
        "<style",
    ] {
        ensure!(
            !low.contains(part),
            "it has {part}, which a picture of a report cannot have"
        );
    }
    let bytes = low.as_bytes();
    for (i, _) in low.match_indices("href") {
        let value = low[i + 4..]
            .trim_start()
            .strip_prefix('=')
            .map(str::trim_start);
        let own = value.is_some_and(|v| v.starts_with("\"#") || v.starts_with("'#"));
        ensure!(own || value.is_none(), "it has a reference to another file");
    }
    for (i, _) in low.match_indices("url(") {
        let own = low[i + 4..]
            .trim_start_matches(['"', '\'', ' '])
            .starts_with('#');
        ensure!(own, "it has a reference to another file");
    }
    for (i, _) in low.match_indices("on") {
        let name: String = low[i..]
            .chars()
            .take_while(|c| c.is_ascii_alphabetic())
            .collect();
        let before = i.checked_sub(1).map_or(b' ', |b| bytes[b]);
        let after = low[i + name.len()..].trim_start().starts_with('=');
        let handler =
            after && (before.is_ascii_whitespace() || matches!(before, b'"' | b'\'' | b'/'));
        ensure!(
            !handler,
            "it has {name}, which a picture of a report cannot have"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(block: Value) -> anyhow::Result<Document> {
        let sections = json!([{"title": "a", "blocks": [{"text": "first"}, block]}]);
        Document::read(json!({"format": FORMAT, "title": "t", "sections": sections}))
    }

    #[test]
    fn blocks_are_read_or_refused_with_their_place() {
        let error = |b: Value| format!("{:#}", of(b).unwrap_err());
        assert!(of(json!({"code": "x"})).is_ok());
        assert!(of(json!({"facts": [["a", 1]]})).is_ok());
        let e = error(json!({"code": "x", "text": "y"}));
        assert!(e.contains("sections[0].blocks[1]: it has 2 of text"), "{e}");
        let e = error(json!({"table": {"columns": ["a"], "rows": [[1, 2]]}}));
        assert!(e.contains("rows[0] has 2 cells"), "{e}");
        let e = error(json!({"chart": {"panels": []}}));
        assert!(e.contains("chart: it has no panels"), "{e}");
        let e = error(json!({"picture": 1}));
        assert!(e.contains("unknown field `picture`"), "{e}");
        let e = Document::read(json!({"format": "x", "title": "t", "sections": []}));
        assert!(format!("{:#}", e.unwrap_err()).contains("nagori-document"));
    }

    #[test]
    fn pictures_load_and_run_nothing() {
        let svg = |inner: &str| check_svg(&format!("<svg>{inner}</svg>"));
        assert!(svg("<path d='M0 0' clip-path='url(#a)'/><text>on = button</text>").is_ok());
        assert!(svg("<path clip-path='url(#a)'/><a href='#b'>second</a>").is_ok());
        for bad in [
            "<script>1</script>",
            "<path onclick='x'/>",
            "<a href='http://x'>y</a>",
            "<path fill='url(http://x)'/>",
            "<a xlink:href=\"javascript:x\"/>",
            "<image href='#x'/>",
        ] {
            assert!(svg(bad).is_err(), "{bad}");
        }
        assert!(check_svg("<?xml version='1.0'?><svg></svg>").is_err());
    }
}
