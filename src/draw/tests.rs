//! Pictures of six shapes of pipelines, and of many random ones.

mod shapes;

use super::{Style, text};

#[test]
fn look() {
    if let Ok(folder) = std::env::var("DRAW_OUT") {
        let all: Vec<_> = shapes::all().into_iter().chain(shapes::large()).map(|it| it.1).collect();
        std::fs::write(format!("{folder}/all.html"), super::html(&all, "Pipelines of config.json")).unwrap();
        for (name, outline) in shapes::all().into_iter().chain(shapes::large()) {
            let name = name.replace(' ', "_");
            std::fs::write(format!("{folder}/{name}.svg"), super::svg(&outline)).unwrap();
            std::fs::write(format!("{folder}/{name}.dot"), super::dot(&outline)).unwrap();
            std::fs::write(format!("{folder}/{name}.mmd"), super::mermaid(&outline)).unwrap();
            std::fs::write(format!("{folder}/{name}.txt"), super::text(&outline, Style::default())).unwrap();
        }
    }
    for (name, outline) in shapes::all() {
        println!("=== {name}\n{}", text(&outline, Style::default()));
    }
}
