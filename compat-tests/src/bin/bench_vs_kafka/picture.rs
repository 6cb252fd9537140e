//! Bars, as SVG: how many times better ours is, on a scale on which twice as good and half as good
//! are equally far from even.

use std::fmt::Write;

use crate::render::short;
use crate::results::{Row, median, spread};

const FONT: &str = r#"font-family="sans-serif" font-size="12""#;
const WIDTH: f64 = 860.0;
const NAMES: f64 = 420.0;
const ROW: f64 = 22.0;
const TOP: f64 = 56.0;
/// The scale ends at this many times better or worse.
const MOST: f64 = 64.0;

/// A group's picture.
pub fn bars(group: &str, rows: &[&Row]) -> String {
    let rows: Vec<_> = rows.iter().filter(|row| !row.ratios().is_empty()).collect();
    let height = TOP + ROW * rows.len() as f64 + 12.0;
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>"#,
    );
    let _ = writeln!(svg, r##"<rect width="100%" height="100%" fill="#ffffff"/>"##);
    let title = format!("{group}: how many times better than Apache Kafka");
    let _ = writeln!(svg, r#"<text x="12" y="20" font-size="14">{}</text>"#, escaped(&title));
    grid(&mut svg, height);
    for (index, row) in rows.iter().enumerate() {
        bar(&mut svg, row, TOP + ROW * index as f64);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Where a ratio is on the scale.
fn x(ratio: f64) -> f64 {
    let share = ratio.clamp(1.0 / MOST, MOST).log2() / MOST.log2();
    let (left, right) = (NAMES, WIDTH - 60.0);
    left + (right - left) * (share + 1.0) / 2.0
}

fn grid(svg: &mut String, height: f64) {
    for ratio in [1.0 / 16.0, 0.25, 1.0, 4.0, 16.0] {
        let (x, bottom) = (x(ratio), height - 8.0);
        let color = if ratio == 1.0 { "#444444" } else { "#dddddd" };
        let _ =
            writeln!(svg, r#"<path d="M{x:.1} {:.1}V{bottom:.1}" stroke="{color}"/>"#, TOP - 8.0,);
        let label = if ratio < 1.0 { format!("1/{:.0}", 1.0 / ratio) } else { short_scale(ratio) };
        let _ = writeln!(
            svg,
            r##"<text x="{x:.1}" y="{:.1}" text-anchor="middle" fill="#666666">{label}</text>"##,
            TOP - 14.0,
        );
    }
}

fn short_scale(ratio: f64) -> String {
    format!("{ratio:.0}×")
}

fn bar(svg: &mut String, row: &Row, y: f64) {
    let ratios = row.ratios();
    let (Some(ratio), Some((least, most))) = (median(&ratios), spread(&ratios)) else { return };
    let name = escaped(&format!("{}, {}", row.key.name, row.key.metric));
    let middle = y + ROW / 2.0 + 4.0;
    let _ = writeln!(svg, r#"<text x="12" y="{middle:.1}">{name}</text>"#);
    let (from, to) = (x(1.0).min(x(ratio)), x(1.0).max(x(ratio)));
    let color = if ratio >= 1.0 { "#2f7d4f" } else { "#b5452c" };
    let _ = writeln!(
        svg,
        r#"<rect x="{from:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{color}"/>"#,
        y + 4.0,
        (to - from).max(1.0),
        ROW - 8.0,
    );
    // The spread over the rounds.
    let _ = writeln!(
        svg,
        r##"<path d="M{:.1} {:.1}H{:.1}" stroke="#111111"/>"##,
        x(least),
        y + ROW / 2.0,
        x(most),
    );
    let _ = writeln!(
        svg,
        r#"<text x="{:.1}" y="{middle:.1}">{}×</text>"#,
        x(most).max(to) + 6.0,
        short(ratio),
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_and_half_are_equally_far_from_even() {
        assert!((x(2.0) - x(1.0) - (x(1.0) - x(0.5))).abs() < 1e-9);
        assert!(x(1e9) <= WIDTH);
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escaped("a<b & c>d"), "a&lt;b &amp; c&gt;d");
    }
}
