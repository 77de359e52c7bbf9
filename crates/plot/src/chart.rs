//! What a chart shows.

use crate::Error;
use serde::{Deserialize, Serialize};

/// Panels with a common heading and legend.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// Above all panels.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Below the title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// How many panels are side by side, if there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<usize>,
    /// At least one.
    pub panels: Vec<Panel>,
}

/// Series over one pair of axes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    /// What it shows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, later ones above earlier ones.
    pub series: Vec<Series>,
    /// Values to compare with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// What is said instead of a picture if no series has a point.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub empty: String,
}

/// How values become places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Equal differences are equal distances.
    #[default]
    Linear,
    /// Equal ratios are equal distances.
    Log,
    /// Names, one beside the other; of the horizontal axis only.
    Names,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What it counts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// In which unit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// How values become places.
    #[serde(default, skip_serializing_if = "is_linear")]
    pub scale: Scale,
    /// All names, in their order; if there are none, those of the points. A name's second line is that of its group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Whether a linear axis has zero; by default the vertical one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero: Option<bool>,
    /// A value that the axis reaches at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
}

fn is_linear(s: &Scale) -> bool {
    *s == Scale::Linear
}

fn is_false(b: &bool) -> bool {
    !b
}

impl Axis {
    /// A linear axis.
    pub fn new(title: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis {
            title: title.into(),
            unit: unit.into(),
            ..Axis::default()
        }
    }

    /// An axis of names.
    pub fn names(title: impl Into<String>) -> Axis {
        Axis {
            scale: Scale::Names,
            ..Axis::new(title, "")
        }
    }

    /// Logarithmic instead.
    pub fn log(self) -> Axis {
        Axis {
            scale: Scale::Log,
            ..self
        }
    }

    /// Title and unit as they are printed.
    pub fn label(&self) -> String {
        match (self.title.as_str(), self.unit.as_str()) {
            (t, "") => t.to_string(),
            ("", u) => format!("[{u}]"),
            (t, u) => format!("{t} [{u}]"),
        }
    }
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// A line from point to point, in the order of x, with symbols.
    #[default]
    Line,
    /// Symbols.
    Points,
    /// A line that keeps the height of a point up to the next one.
    Steps,
    /// Bars, beside those of other series.
    Bars,
    /// Bars, above those of the series before.
    Stack,
}

/// Points with a name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Its name in the legend; series with an equal name look equal in all panels.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How it is drawn.
    #[serde(default)]
    pub mark: Mark,
    /// Which colour of the palette; by default the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colour: Option<usize>,
    /// A dashed line, empty symbols.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dashed: bool,
    /// The series whose place beside others it takes, for marks on bars.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub beside: String,
    /// Its points.
    pub points: Vec<Point>,
}

/// Where a point is along the horizontal axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Place {
    /// On an axis of numbers.
    Number(f64),
    /// On an axis of names.
    Name(String),
}

impl From<f64> for Place {
    fn from(v: f64) -> Place {
        Place::Number(v)
    }
}

impl From<&str> for Place {
    fn from(v: &str) -> Place {
        Place::Name(v.to_string())
    }
}

impl From<String> for Place {
    fn from(v: String) -> Place {
        Place::Name(v)
    }
}

/// A point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Point {
    /// Where it is.
    pub x: Place,
    /// Its value; there may be none, but a label that says why.
    pub y: Option<f64>,
    /// Lower end of an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Printed above a bar.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
}

/// The forms in which points are written.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Two(Place, Option<f64>),
    Four(Place, Option<f64>, Option<f64>, Option<f64>),
    Named {
        x: Place,
        y: Option<f64>,
        #[serde(default)]
        low: Option<f64>,
        #[serde(default)]
        high: Option<f64>,
        #[serde(default)]
        label: String,
    },
}

impl From<Written> for Point {
    fn from(w: Written) -> Point {
        let (x, y, low, high, label) = match w {
            Written::Two(x, y) => (x, y, None, None, String::new()),
            Written::Four(x, y, low, high) => (x, y, low, high, String::new()),
            Written::Named {
                x,
                y,
                low,
                high,
                label,
            } => (x, y, low, high, label),
        };
        Point {
            x,
            y,
            low,
            high,
            label,
        }
    }
}

impl Point {
    /// A value.
    pub fn new(x: impl Into<Place>, y: f64) -> Point {
        Point {
            x: x.into(),
            y: Some(y),
            low: None,
            high: None,
            label: String::new(),
        }
    }

    /// No value, and why.
    pub fn missing(x: impl Into<Place>, why: impl Into<String>) -> Point {
        Point {
            y: None,
            ..Point::new(x, 0.0)
        }
        .labelled(why)
    }

    /// With an interval.
    pub fn within(self, ends: Option<[f64; 2]>) -> Point {
        Point {
            low: ends.map(|e| e[0]),
            high: ends.map(|e| e[1]),
            ..self
        }
    }

    /// With a label.
    pub fn labelled(self, label: impl Into<String>) -> Point {
        Point {
            label: label.into(),
            ..self
        }
    }

    /// The value and the ends of its interval.
    pub(crate) fn values(&self) -> impl Iterator<Item = f64> {
        [self.y, self.low, self.high].into_iter().flatten()
    }
}

/// A value to compare with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its height.
    pub y: f64,
    /// Its name in the legend.
    pub name: String,
}

impl Series {
    /// A series without points.
    pub fn new(name: impl Into<String>, mark: Mark) -> Series {
        Series {
            name: name.into(),
            mark,
            ..Series::default()
        }
    }

    /// With points.
    pub fn with(self, points: impl IntoIterator<Item = Point>) -> Series {
        Series {
            points: points.into_iter().collect(),
            ..self
        }
    }
}

impl Panel {
    /// A panel with these series.
    pub fn new(title: impl Into<String>, axes: (Axis, Axis), series: Vec<Series>) -> Panel {
        Panel {
            title: title.into(),
            x: axes.0,
            y: axes.1,
            series,
            ..Panel::default()
        }
    }

    /// The point at a place is added to the series of a name, which is made if there is none.
    pub fn add(&mut self, series: Series) {
        match self.series.iter_mut().find(|s| s.name == series.name) {
            Some(old) => old.points.extend(series.points),
            None => self.series.push(series),
        }
    }

    /// All points.
    pub(crate) fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|s| &s.points)
    }

    /// The names along the horizontal axis.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut all = self.x.names.clone();
        for p in self.points() {
            if let Place::Name(n) = &p.x {
                if !all.contains(n) {
                    all.push(n.clone());
                }
            }
        }
        all
    }
}

impl Chart {
    /// Of one panel, whose title is that of the chart.
    pub fn of(panel: Panel) -> Chart {
        Chart {
            panels: vec![panel],
            ..Chart::default()
        }
    }

    /// Checks that it can be drawn.
    ///
    /// # Errors
    /// If values cannot be on their axis.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |place: &str, what: &str| {
            let (place, what) = (place.to_string(), what.to_string());
            Err(Error::Chart { place, what })
        };
        if self.panels.is_empty() {
            return wrong("chart", "it has no panels; one at least is needed");
        }
        if self.columns == Some(0) {
            return wrong("chart", "columns: 0; expected 1 or more");
        }
        for (i, p) in self.panels.iter().enumerate() {
            let panel = format!("panel {}", i + 1);
            if p.y.scale == Scale::Names {
                return wrong(&panel, "y: names can only be on the horizontal axis");
            }
            for rule in &p.rules {
                if !rule.y.is_finite() || (p.y.scale == Scale::Log && rule.y <= 0.0) {
                    return wrong(&panel, "rules: a value that the axis does not have");
                }
            }
            for s in &p.series {
                let place = format!("{panel}, series {:?}", s.name);
                for point in &s.points {
                    p.check(s, point).or_else(|what| wrong(&place, what))?;
                }
            }
        }
        Ok(())
    }
}

impl Panel {
    fn check(&self, s: &Series, point: &Point) -> Result<(), &'static str> {
        match (&point.x, self.x.scale) {
            (Place::Name(_), Scale::Names) => {}
            (Place::Name(_), _) => {
                return Err("x: a name, but the axis has numbers (scale: names)")
            }
            (Place::Number(_), Scale::Names) => {
                return Err("x: a number, but the axis has names; write it as a string")
            }
            (Place::Number(v), _) if !v.is_finite() => return Err("x: not a finite number"),
            (Place::Number(v), Scale::Log) if *v <= 0.0 => {
                return Err("x: a logarithmic axis has only positive values")
            }
            _ => {}
        }
        if point.values().any(|v| !v.is_finite()) {
            return Err("y: not a finite number");
        }
        if self.y.scale == Scale::Log && point.values().any(|v| v <= 0.0) {
            return Err("y: a logarithmic axis has only positive values");
        }
        if let (Some(low), Some(high)) = (point.low, point.high) {
            if low > high {
                return Err("low is above high");
            }
        }
        let bars = matches!(s.mark, Mark::Bars | Mark::Stack);
        if bars && self.x.scale != Scale::Names {
            return Err("bars need an axis of names");
        }
        if s.mark == Mark::Stack {
            if self.y.scale == Scale::Log {
                return Err("bars on one another need a linear axis");
            }
            if point.y.is_some_and(|y| y < 0.0) {
                return Err("bars on one another cannot be negative");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_written_in_several_forms() {
        let of = |text: &str| serde_json::from_str::<Point>(text).unwrap();
        assert_eq!(of("[1, 2.5]"), Point::new(1.0, 2.5));
        assert_eq!(of("[\"pcm\", null]").y, None);
        let whole = of("[\"pcm\", 2, 1, 3]");
        assert_eq!(whole, Point::new("pcm", 2.0).within(Some([1.0, 3.0])));
        let named = of("{\"x\": 1, \"y\": 2, \"label\": \"two\"}");
        assert_eq!(named, Point::new(1.0, 2.0).labelled("two"));
        // What is written is read again.
        let text = serde_json::to_string(&whole).unwrap();
        assert_eq!(of(&text), whole);
    }

    #[test]
    fn what_an_axis_does_not_have_is_refused_with_its_place() {
        let of = |x: Axis, y: Axis, mark, point| {
            let series = Series::new("a", mark).with([point]);
            let chart = Chart::of(Panel::new("", (x, y), vec![series]));
            chart.check().unwrap_err().to_string()
        };
        let (n, l) = (|| Axis::new("", ""), || Axis::new("", "").log());
        let e = of(n(), l(), Mark::Line, Point::new(1.0, 0.0));
        assert!(e.contains("panel 1, series \"a\": y: a logarithmic"), "{e}");
        let e = of(l(), n(), Mark::Line, Point::new(-1.0, 0.0));
        assert!(e.contains("x: a logarithmic"), "{e}");
        let e = of(n(), n(), Mark::Bars, Point::new(1.0, 0.0));
        assert!(e.contains("axis of names"), "{e}");
        let e = of(Axis::names(""), n(), Mark::Bars, Point::new(1.0, 0.0));
        assert!(e.contains("as a string"), "{e}");
        let e = of(n(), n(), Mark::Line, Point::new(1.0, f64::NAN));
        assert!(e.contains("finite"), "{e}");
        let e = of(n(), Axis::names(""), Mark::Line, Point::new(1.0, 1.0));
        assert!(e.contains("horizontal"), "{e}");
        assert!(Chart::default().check().is_err());
    }
}
