//! A result as a self-contained HTML page.

use crate::mem::report::Report;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:1440px;margin:2em auto;padding:0 1em;color:#222}\
pre{background:#f6f6f6;padding:1em;overflow-x:auto;line-height:1.35}svg{width:100%;height:auto}";

/// The page around the plot of a run.
pub fn html(r: &Report, svg: &str) -> String {
    let heading = format!("{} with {}", r.memory, r.trace);
    let settings: String = if r.settings.is_empty() {
        String::new()
    } else {
        format!(
            "<p>Set for this run: {}</p>\n",
            escape(&r.settings.join(", "))
        )
    };
    around(&heading, &settings, svg, &r.tables())
}

/// A page with a heading, some HTML, a picture, and text below it.
pub fn around(heading: &str, more: &str, svg: &str, text: &str) -> String {
    let heading = escape(heading);
    // An XML prologue is not allowed inside a page.
    let svg = svg.find("<svg").map_or(svg, |at| &svg[at..]);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{heading}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head>\n\
         <body>\n<h1>{heading}</h1>\n{more}{svg}\n<pre>{}</pre>\n</body>\n</html>\n",
        escape(text)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
