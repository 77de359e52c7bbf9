//! A chart that is laid out: paths and texts, in pixels from the upper left corner.

/// Colours that colour-blind people can tell apart (Okabe and Ito), without those that are too pale on white or black.
pub const PALETTE: [[u8; 3]; 7] = [
    [0, 114, 178],
    [213, 94, 0],
    [0, 158, 115],
    [204, 121, 167],
    [230, 159, 0],
    [86, 180, 233],
    [118, 118, 118],
];

/// What a shape is painted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Text and axes.
    Ink,
    /// Lines behind the data.
    Grid,
    /// The ground.
    Ground,
    /// A colour of [`PALETTE`], counted round.
    Palette(usize),
}

impl Paint {
    /// Red, green, blue on white ground.
    pub fn rgb(self) -> [u8; 3] {
        match self {
            Paint::Ink => [34, 34, 34],
            Paint::Grid => [221, 221, 221],
            Paint::Ground => [255, 255, 255],
            Paint::Palette(i) => PALETTE[i % PALETTE.len()],
        }
    }
}

/// What of a text is at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Its begin.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

/// A line of text.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// The characters.
    pub text: String,
    /// Where the anchor is, on the base line.
    pub at: (f64, f64),
    /// Its height.
    pub size: f64,
    /// Its length, as the font has it.
    pub length: f64,
    /// What is at `at`.
    pub anchor: Anchor,
    /// Whether it runs upwards.
    pub upright: bool,
    /// Whether it is bold.
    pub bold: bool,
}

/// Share of a text's size that is above its base line, and below.
pub(crate) const ABOVE: f64 = 0.78;
pub(crate) const BELOW: f64 = 0.24;

impl Text {
    /// Where its letters are.
    pub fn bounds(&self) -> Bounds {
        let begin = match self.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -self.length / 2.0,
            Anchor::End => -self.length,
        };
        let (above, below) = (ABOVE * self.size, BELOW * self.size);
        let (x, y) = self.at;
        if self.upright {
            return Bounds {
                left: x - above,
                right: x + below,
                top: y - begin - self.length,
                bottom: y - begin,
            };
        }
        Bounds {
            left: x + begin,
            right: x + begin + self.length,
            top: y - above,
            bottom: y + below,
        }
    }
}

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Least x.
    pub left: f64,
    /// Greatest x.
    pub right: f64,
    /// Least y.
    pub top: f64,
    /// Greatest y.
    pub bottom: f64,
}

impl Bounds {
    /// Whether two rectangles have more than their edges in common.
    pub fn overlaps(&self, other: &Bounds) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Distance of its vertical edges.
    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    /// Distance of its horizontal edges.
    pub fn height(&self) -> f64 {
        self.bottom - self.top
    }
}

/// Something to paint.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Straight lines through points.
    Path {
        /// The points.
        points: Vec<(f64, f64)>,
        /// The last one is connected with the first one.
        closed: bool,
        /// Of what is within.
        fill: Option<Paint>,
        /// Of the lines, and their width.
        stroke: Option<(Paint, f64)>,
        /// Lengths of dashes and gaps; nothing: a solid line.
        dash: &'static [f64],
        /// 1 hides what is below.
        opacity: f64,
    },
    /// A line of text.
    Text(Text),
}

/// A chart that is laid out.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// In pixels.
    pub width: f64,
    /// In pixels.
    pub height: f64,
    /// What it shows, in words.
    pub title: String,
    /// Later ones are above earlier ones.
    pub shapes: Vec<Shape>,
}

impl Scene {
    /// Its texts.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.shapes.iter().filter_map(|s| match s {
            Shape::Text(t) => Some(t),
            Shape::Path { .. } => None,
        })
    }
}
