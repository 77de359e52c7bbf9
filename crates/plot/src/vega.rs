//! Charts as Vega-Lite documents (version 5).

use crate::layout::style::Styles;
use crate::scene::Paint;
use crate::{Axis, Chart, Mark, Panel, Place, Scale, Series};
use serde_json::{json, Value};

const SCHEMA: &str = "https://vega.github.io/schema/vega-lite/v5.json";
/// Size of a panel.
const SIZE: (u32, u32) = (420, 280);

/// A document with its data in it.
pub fn document(chart: &Chart) -> Value {
    let styles = Styles::of(chart);
    let mut all: Vec<Value> = chart.panels.iter().map(|p| panel(p, &styles)).collect();
    let mut doc = match all.len() {
        1 => all.remove(0),
        n => {
            let columns = chart.columns.unwrap_or(2).clamp(1, n);
            json!({"concat": all, "columns": columns})
        }
    };
    doc["$schema"] = json!(SCHEMA);
    if !chart.title.is_empty() || !chart.note.is_empty() {
        let own = doc["title"].as_str().unwrap_or_default();
        let lines: Vec<&str> = [chart.note.as_str(), own]
            .into_iter()
            .filter(|t| !t.is_empty())
            .collect();
        doc["title"] = json!({"text": chart.title, "subtitle": lines, "anchor": "start"});
    }
    doc["config"] = json!({
        "font": "DejaVu Sans, Verdana, sans-serif",
        "axis": {"labelFontSize": 12, "titleFontSize": 12},
        "legend": {"labelFontSize": 12, "orient": "top", "columns": 4, "labelLimit": 400},
        "view": {"stroke": null},
    });
    doc
}

fn hex(p: Paint) -> String {
    let [r, g, b] = p.rgb();
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The place beside others, as `xOffset` has it.
fn place(s: &Series) -> &str {
    match s.beside.as_str() {
        "" => &s.name,
        beside => beside,
    }
}

fn rows(p: &Panel) -> Vec<Value> {
    let mut all = Vec::new();
    for s in &p.series {
        for point in &s.points {
            let x = match &point.x {
                Place::Number(v) => json!(v),
                Place::Name(n) => json!(n),
            };
            let mut row = json!({"x": x, "y": point.y, "series": s.name, "mark": s.mark});
            if s.mark != Mark::Line && s.mark != Mark::Steps {
                row["place"] = json!(place(s));
            }
            if let (Some(low), Some(high)) = (point.low, point.high) {
                row["low"] = json!(low);
                row["high"] = json!(high);
            }
            if !point.label.is_empty() {
                row["label"] = json!(point.label);
            }
            all.push(row);
        }
    }
    all
}

fn scale(a: &Axis, vertical: bool) -> Value {
    match a.scale {
        Scale::Log => json!({"type": "log", "nice": false}),
        _ => json!({"zero": a.zero.unwrap_or(vertical)}),
    }
}

fn title(a: &Axis) -> Value {
    match a.label() {
        t if t.is_empty() => Value::Null,
        t => json!(t),
    }
}

fn panel(p: &Panel, styles: &Styles) -> Value {
    let names = p.x.scale == Scale::Names;
    let x = if names {
        json!({
            "field": "x", "type": "nominal", "sort": p.names(), "title": title(&p.x),
            // A name's second line is that of its group.
            "axis": {"labelExpr": "split(datum.label, '\\n')", "labelAngle": if p.names().len() > 8 { -90 } else { 0 }},
        })
    } else {
        json!({"field": "x", "type": "quantitative", "title": title(&p.x), "scale": scale(&p.x, false)})
    };
    let y = json!({"field": "y", "type": "quantitative", "title": title(&p.y), "scale": scale(&p.y, true)});
    let with = |field: &str| {
        let mut of = y.clone();
        of["field"] = json!(field);
        of
    };
    // Panels share these scales, so all of them have all series.
    let domain: Vec<&str> = styles.all.iter().map(|s| s.name.as_str()).collect();
    let colours: Vec<String> = styles.all.iter().map(|s| hex(s.paint)).collect();
    let dashes: Vec<&[f64]> = styles.all.iter().map(|s| s.dash).collect();
    let legend = if domain.iter().all(|d| d.is_empty()) {
        Value::Null
    } else {
        json!({"title": null})
    };
    let colour = json!({"field": "series", "type": "nominal", "legend": legend,
        "scale": {"domain": domain, "range": colours}});
    let dash = json!({"field": "series", "type": "nominal", "legend": null,
        "scale": {"domain": domain, "range": dashes}});
    let mut places: Vec<&str> = Vec::new();
    let beside = |s: &&Series| matches!(s.mark, Mark::Bars | Mark::Points);
    for s in p.series.iter().filter(beside) {
        if !places.contains(&place(s)) {
            places.push(place(s));
        }
    }
    let offset = json!({"field": "place", "type": "nominal", "scale": {"domain": places}});
    let of = |mark: Mark| json!([{"filter": format!("datum.mark === '{}'", name(mark))}]);
    let mut layers = Vec::new();
    for mark in [
        Mark::Bars,
        Mark::Stack,
        Mark::Steps,
        Mark::Line,
        Mark::Points,
    ] {
        if !p
            .series
            .iter()
            .any(|s| s.mark == mark && !s.points.is_empty())
        {
            continue;
        }
        let mut encoding = json!({"x": x, "y": y, "color": colour});
        let drawn = match mark {
            Mark::Bars | Mark::Points => {
                if names && places.len() > 1 {
                    encoding["xOffset"] = offset.clone();
                }
                encoding["y"]["stack"] = Value::Null;
                match mark {
                    Mark::Bars => json!({"type": "bar", "tooltip": true}),
                    _ => json!({"type": "point", "filled": true, "size": 50, "tooltip": true}),
                }
            }
            Mark::Stack => {
                encoding["y"]["stack"] = json!("zero");
                // The first series is the lowest one.
                let order: Vec<String> = { domain.iter().enumerate() }
                    .map(|(i, d)| format!("datum.series === {} ? {i} : ", json!(d)))
                    .collect();
                layers.push(json!({
                    "transform": [
                        {"filter": format!("datum.mark === '{}'", name(mark))},
                        {"calculate": format!("{}{}", order.concat(), domain.len()), "as": "order"},
                    ],
                    "mark": {"type": "bar", "tooltip": true},
                    "encoding": {"x": x, "y": encoding["y"], "color": colour,
                        "order": {"field": "order", "type": "quantitative"}},
                }));
                continue;
            }
            Mark::Steps => json!({"type": "line", "interpolate": "step-after"}),
            Mark::Line => json!({"type": "line", "point": true, "tooltip": true}),
        };
        if matches!(mark, Mark::Line | Mark::Steps) {
            encoding["strokeDash"] = dash.clone();
        }
        layers.push(json!({"transform": of(mark), "mark": drawn, "encoding": encoding}));
    }
    let places_of = |mut e: Value| {
        if names && places.len() > 1 {
            e["xOffset"] = offset.clone();
        }
        e
    };
    if p.points().any(|q| q.low.is_some() && q.high.is_some()) {
        layers.push(json!({
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": places_of(json!({"x": x, "y": with("low"), "y2": {"field": "high"}})),
        }));
    }
    if p.series
        .iter()
        .any(|s| s.mark == Mark::Bars && s.points.iter().any(|q| !q.label.is_empty()))
    {
        layers.push(json!({
            "transform": [{"filter": "datum.mark === 'bars' && isValid(datum.label) && isValid(datum.y)"}],
            "mark": {"type": "text", "dy": -7},
            "encoding": places_of(json!({"x": x, "y": y, "text": {"field": "label"}})),
        }));
    }
    if !p.rules.is_empty() {
        layers.push(json!({
            "data": {"values": p.rules},
            "mark": {"type": "rule", "strokeDash": [3, 3], "tooltip": true},
            "encoding": {"y": {"field": "y", "type": "quantitative"}, "tooltip": {"field": "name", "type": "nominal"}},
        }));
    }
    if layers.is_empty() {
        layers.push(json!({"mark": {"type": "text", "text": p.empty}}));
    }
    let mut view =
        json!({"width": SIZE.0, "height": SIZE.1, "data": {"values": rows(p)}, "layer": layers});
    if !p.title.is_empty() {
        view["title"] = json!(p.title);
    }
    view
}

fn name(m: Mark) -> String {
    json!(m).as_str().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Point;

    #[test]
    fn data_and_axes_are_in_the_document() {
        let series =
            Series::new("ddr4", Mark::Line).with([Point::new(1.0, 2.0), Point::new(8.0, 4.0)]);
        let axes = (
            Axis::new("buffer", "KiB").log(),
            Axis::new("throughput", "MB/s"),
        );
        let chart = Chart::of(Panel::new("t", axes, vec![series]));
        let doc = document(&chart);
        assert_eq!(doc["$schema"], SCHEMA);
        assert_eq!(doc["data"]["values"][1]["y"], 4.0);
        let x = &doc["layer"][0]["encoding"]["x"];
        assert_eq!(
            (&x["title"], &x["scale"]["type"]),
            (&json!("buffer [KiB]"), &json!("log"))
        );
        let two = Chart {
            panels: [chart.panels.clone(), chart.panels].concat(),
            ..Chart::default()
        };
        assert_eq!(document(&two)["concat"].as_array().map(Vec::len), Some(2));
    }
}
