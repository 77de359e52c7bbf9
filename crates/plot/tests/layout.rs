//! No text lies on another one or beyond the picture, whatever a chart shows.

use nagori_plot::{
    file, layout, svg, Axis, Chart, Font, Format, Look, Mark, Panel, Point, Rule, Scale, Scene,
    Series,
};
use proptest::prelude::*;

/// What is wrong with the places of texts.
fn faults(scene: &Scene) -> Vec<String> {
    let texts: Vec<_> = scene.texts().map(|t| (t, t.bounds())).collect();
    let mut all = Vec::new();
    for (i, (a, box_a)) in texts.iter().enumerate() {
        let beyond = box_a.left < -0.5
            || box_a.top < -0.5
            || box_a.right > scene.width + 0.5
            || box_a.bottom > scene.height + 0.5;
        if beyond {
            all.push(format!("{:?} is beyond the picture: {box_a:?}", a.text));
        }
        for (b, box_b) in &texts[i + 1..] {
            if box_a.overlaps(box_b) {
                let (a, b) = (&a.text, &b.text);
                all.push(format!("{a:?} lies on {b:?}: {box_a:?} {box_b:?}"));
            }
        }
    }
    all
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,12}",
        "[a-zA-Z0-9 ,.=/-]{0,60}",
        "[a-z]{20,90}",
        Just(String::new()),
    ]
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        -1e3..1e3,
        0.0..1.0,
        (-12.0..12.0).prop_map(|e| 10f64.powf(e)),
        Just(0.0)
    ]
}

/// Panels of names, with all marks that they can have.
fn of_names() -> impl Strategy<Value = Panel> {
    let names = prop::collection::vec("[a-z0-9]{1,24}( [a-z]{1,9}){0,2}(\n[a-z ]{1,20})?", 1..24);
    let series = prop::collection::vec((words(), 0usize..4, any::<bool>(), value()), 1..9);
    (words(), words(), words(), names, series).prop_map(|(title, x, y, names, series)| {
        let series = series.into_iter().map(|(name, mark, labelled, v)| {
            let mark = [Mark::Bars, Mark::Stack, Mark::Points, Mark::Line][mark];
            let of = |(i, n): (usize, &String)| {
                let y = v * (1.0 + i as f64 / 7.0);
                let y = if mark == Mark::Stack { y.abs() } else { y };
                let ends = (i % 3 == 0).then_some([y - y.abs() / 9.0, y + y.abs() / 5.0]);
                match i % 5 {
                    4 => Point::missing(n.as_str(), "unfinished: time limit"),
                    _ if labelled => Point::new(n.as_str(), y).labelled(format!("{y:.3}")),
                    _ => Point::new(n.as_str(), y).within(ends),
                }
            };
            Series::new(name, mark).with(names.iter().enumerate().map(of))
        });
        let series = series.collect();
        Panel::new(title, (Axis::names(x), Axis::new(y, "ns")), series)
    })
}

/// Panels of numbers.
fn of_numbers() -> impl Strategy<Value = Panel> {
    let points = || prop::collection::vec((value(), value()), 0..30);
    let series = prop::collection::vec((words(), 0usize..3, points()), 0..12);
    let axes = (words(), words(), any::<bool>(), any::<bool>());
    (words(), axes, series, prop::option::of(value())).prop_map(
        |(title, (x, y, log_x, log_y), series, rule)| {
            let on = |log: bool, v: f64| if log { v.abs().max(1e-9) } else { v };
            let series = series.into_iter().map(|(name, mark, points)| {
                let mark = [Mark::Line, Mark::Points, Mark::Steps][mark];
                let of = |(x, y): (f64, f64)| Point::new(on(log_x, x), on(log_y, y));
                Series::new(name, mark).with(points.into_iter().map(of))
            });
            let axis = |title: String, log| Axis {
                scale: if log { Scale::Log } else { Scale::Linear },
                ..Axis::new(title, "KiB")
            };
            let mut panel = Panel::new(title, (axis(x, log_x), axis(y, log_y)), series.collect());
            panel.rules.extend(rule.map(|r| Rule {
                y: on(log_y, r),
                name: "published".into(),
            }));
            panel
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_text_lies_on_another(
        panels in prop::collection::vec(prop_oneof![of_names(), of_numbers()], 1..5),
        title in words(),
        note in words(),
        columns in prop::option::of(1usize..4),
        width in prop::option::of(300.0..1600.0f64),
        height in prop::option::of(100.0..1200.0f64),
        text in 8.0..24.0f64,
    ) {
        let chart = Chart { title, note, columns, panels };
        let look = Look { width, height, text, ..Look::default() };
        let scene = layout(&chart, &look).unwrap();
        let faults = faults(&scene);
        prop_assert!(faults.is_empty(), "{}", faults.join("\n"));
        // Bars and lines are within the picture as well.
        for s in &scene.shapes {
            if let nagori_plot::Shape::Path { points, .. } = s {
                let inside = |p: &(f64, f64)| {
                    p.0 >= -9.0 && p.0 <= scene.width + 9.0 && p.1 >= -9.0 && p.1 <= scene.height + 9.0
                };
                prop_assert!(points.iter().all(inside), "{points:?}");
            }
        }
    }
}

fn example() -> Chart {
    let names = ["dram", "coarse", "fine", "extended"];
    let bars = { names.iter().zip([1.0, 1.24, 1.31, 2.75]) }
        .map(|(n, y)| Point::new(*n, y).labelled(format!("{y:.3}")));
    let lines = |name: &str, f: f64| {
        let points = (0..8).map(|i| Point::new(64.0 * f64::from(1 << i), f * f64::from(i + 1)));
        Series::new(name, Mark::Line).with(points)
    };
    Chart {
        title: "A title & more".into(),
        panels: vec![
            Panel::new(
                "bars",
                (Axis::names("method"), Axis::new("run time", "")),
                vec![Series::new("", Mark::Bars).with(bars)],
            ),
            Panel::new(
                "lines",
                (
                    Axis::new("size", "B").log(),
                    Axis::new("throughput", "MB/s"),
                ),
                vec![lines("ddr4", 1.0), lines("pcm", 0.4)],
            ),
        ],
        ..Chart::default()
    }
}

#[test]
fn the_check_of_places_can_fail() {
    let mut scene = layout(&example(), &Look::default()).unwrap();
    assert_eq!(faults(&scene), Vec::<String>::new());
    let doubled = scene.shapes.clone();
    scene.shapes.extend(doubled);
    assert!(faults(&scene).len() >= scene.texts().count() / 2);
}

#[test]
fn forms_have_their_marks_and_are_repeatable() {
    let look = Look::default();
    let of = |f| file(&example(), f, &look).unwrap();
    let svg = String::from_utf8(of(Format::Svg)).unwrap();
    for part in [
        "<svg",
        "A title &amp; more",
        "extended",
        "throughput [MB/s]",
        ">8192<",
    ] {
        assert!(svg.contains(part), "{part}");
    }
    let png = of(Format::Png);
    assert!(png.starts_with(b"\x89PNG"));
    let scene = layout(&example(), &look).unwrap();
    let word = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    assert_eq!(f64::from(word(16)), (2.0 * scene.width).ceil());
    let pdf = of(Format::Pdf);
    assert!(
        pdf.starts_with(b"%PDF-1.") && pdf.len() < 100_000,
        "{}",
        pdf.len()
    );
    let vega: serde_json::Value = serde_json::from_slice(&of(Format::Vega)).unwrap();
    assert_eq!(vega["concat"].as_array().map(Vec::len), Some(2));
    for f in [Format::Svg, Format::Png, Format::Pdf, Format::Vega] {
        assert_eq!(of(f), of(f));
    }
}

#[test]
fn looks_are_obeyed() {
    let look = Look {
        width: Some(360.0),
        themed: true,
        ..Look::default()
    };
    let scene = layout(&example(), &look).unwrap();
    // Panels are below one another where there is no room beside.
    assert_eq!(scene.width, 360.0);
    assert!(scene.height > 500.0);
    let text = svg(&example(), &look).unwrap();
    assert!(text.contains("currentColor") && !text.contains("#222222"));
    let wide = Look {
        width: Some(1000.0),
        height: Some(500.0),
        ..Look::default()
    };
    let scene = layout(&example(), &wide).unwrap();
    assert!((scene.height - 500.0).abs() < 1.0, "{}", scene.height);
}

#[test]
fn fonts_are_files() {
    let e = Font::read(b"no font".to_vec()).unwrap_err().to_string();
    assert!(e.contains("the font cannot be used"), "{e}");
    let font = Font::read(dejavu::serif::regular().to_vec()).unwrap();
    assert_eq!(font.family(), "DejaVu Serif");
    let look = Look {
        font,
        ..Look::default()
    };
    assert!(svg(&example(), &look).unwrap().contains("'DejaVu Serif'"));
    assert!(file(&example(), Format::Pdf, &look).is_ok());
}
