//! Random pipelines, sound or not.

use std::fmt::Write;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::shapes::diagram;
use crate::draw::{
    Diagram, EdgeContent, Style, WIDTH, dot, html, mermaid, svg, tests::trace, text,
};

/// Makes a pipeline without errors in its order, of up to so many nodes and two levels.
fn random(rng: &mut StdRng, most: usize) -> Diagram {
    let mut open: Vec<(String, Vec<String>)> = vec![(String::new(), vec!["request.x".to_owned()])];
    let mut text = String::from("x\n");
    for node in 0..rng.random_range(1..=most) {
        let name = format!("node{node}");
        let ports = open.last().unwrap().1.clone();
        let mut port = || ports[rng.random_range(0..ports.len())].clone();
        let (a, b) = (port(), port());
        let given = format!("{name}.z");
        let _ = match rng.random_range(0..10) {
            0 | 1 if open.len() < 3 => {
                open.push((name.clone(), vec![given]));
                writeln!(text, "{name} = two: x < {a}, y < {b}; z; split 3")
            }
            2 if open.len() > 1 => {
                let (from, _) = open.pop().unwrap();
                open.last_mut().unwrap().1.push(given);
                writeln!(text, "{name} = two: x < {a}, y < {b}; z; gather {from}")
            }
            3..6 => {
                open.last_mut().unwrap().1.push(given);
                writeln!(text, "{name} = dummy: b < {a}; z:a")
            }
            _ => {
                open.last_mut().unwrap().1.push(given);
                writeln!(text, "{name} = two: x < {a}, y < {b}; z")
            }
        };
    }
    for (index, port) in open.last().unwrap().1.iter().enumerate() {
        let _ = writeln!(text, "> out{index} < {port}");
    }
    diagram(&text)
}

/// Fails where a line is too long, or something is cut short.
fn validate(diagram: &Diagram, image: &str) {
    for line in image.lines() {
        assert!(line.chars().count() <= WIDTH, "{line}\n{image}");
    }
    for node in &diagram.nodes {
        assert!(
            image.contains(&format!("│ {} ", node.name)),
            "{}\n{image}",
            node.name
        );
    }
    for edge in &diagram.edges {
        let label = format!("{} → {}", edge.output, edge.input);
        assert!(image.contains(&label), "{label}\n{image}");
        if let EdgeContent::Tensor { tensor, .. } = &edge.carries {
            assert!(image.contains(&tensor.to_string()), "{label}\n{image}");
        }
    }
}

#[test]
fn a_narrow_terminal_has_a_narrow_image() {
    let whole = |name: &str| format!("│ {name} ");
    for seed in 0..100 {
        let mut rng = StdRng::seed_from_u64(seed);
        let diagram = random(&mut rng, 3 + (seed as usize % 30));
        for width in [40, 50, 60] {
            let style = Style {
                width,
                ..Style::default()
            };
            let image = text(&diagram, style);
            let longest = image.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{width}\n{image}");
            for node in &diagram.nodes {
                assert!(image.contains(&whole(&node.name)), "{width}\n{image}");
            }
        }
    }
}

#[test]
fn everything_is_whole_in_80_columns_and_lines_lead_where_they_should() {
    let (mut more, mut all) = (0, 0);
    for seed in 0..100 {
        let mut rng = StdRng::seed_from_u64(seed);
        let diagram = random(&mut rng, 3 + (seed as usize % 30));
        let image = text(&diagram, Style::default());
        validate(&diagram, &image);
        let (seen, meant) = (trace::seen(&diagram), trace::meant(&diagram));
        // Lines that meet above a box can be read as more than is meant; labels name the sources.
        assert!(
            seen.is_superset(&meant),
            "{seed}: {seen:?} {meant:?}\n{image}"
        );
        (more, all) = (more + seen.len() - meant.len(), all + meant.len());
    }
    assert!(more * 2 < all, "{more} of {all}");
}

/// Makes a pipeline with so many levels within each other, of which each feeds as many others that
/// stand around the next one.
fn nested(depth: usize, beside: usize) -> Diagram {
    let mut text = String::from("x\n");
    let mut outputs = String::new();
    for level in 0..depth {
        let source = match level {
            0 => "request.x".to_owned(),
            level => format!("d{}.a", level - 1),
        };
        let _ = writeln!(text, "d{level} = four: b < {source}; a; split 4");
        for other in 0..beside {
            let _ = writeln!(text, "n{level}_{other} = dummy: b < {source}; a");
            let _ = writeln!(outputs, "> y{level}_{other} < n{level}_{other}.a");
        }
    }
    let _ = writeln!(text, "work = dummy: b < d{}.a; a\n> y < work.a", depth - 1);
    diagram(&(text + &outputs))
}

#[test]
fn levels_have_frames_as_far_as_they_fit() {
    for (depth, beside) in [
        (28, 0),
        (29, 0),
        (41, 0),
        (81, 0),
        (100, 0),
        (41, 1),
        (100, 1),
        (28, 3),
    ] {
        let diagram = nested(depth, beside);
        let image = text(&diagram, Style::default());
        validate(&diagram, &image);
        let frames = image.matches("╭╌").count();
        assert!(frames > 0, "{depth} {beside}\n{image}");
        // What fits otherwise depends on the lines that pass.
        let reported = image.contains("more │");
        assert!(
            reported == (depth > 28) || beside > 1,
            "{depth} {beside}\n{image}"
        );
        assert!(svg(&diagram).ends_with("</svg>\n"));
    }
}

#[test]
fn a_pipeline_of_any_errors_is_drawn() {
    for seed in 0..100 {
        let mut rng = StdRng::seed_from_u64(seed);
        let nodes = rng.random_range(1..12);
        let mut text = String::from("x; split 2\n");
        let mut source = || match rng.random_range(0..nodes + 3) {
            node if node < nodes => format!("node{node}.z"),
            node if node == nodes => "request.x".to_owned(),
            node if node == nodes + 1 => "nosuch.z".to_owned(),
            _ => "response.z".to_owned(),
        };
        for node in 0..nodes {
            let (a, b) = (source(), source());
            let gathered = source();
            let gathered = gathered.split('.').next().unwrap();
            let more = match node % 3 {
                0 => "; split 4".to_owned(),
                1 => format!("; gather {gathered}"),
                _ => String::new(),
            };
            let _ = writeln!(text, "node{node} = two: x < {a}, y < {b}; z{more}");
        }
        let _ = writeln!(text, "> out < {}", source());
        let diagram = diagram(&text);
        validate(&diagram, &crate::draw::text(&diagram, Style::default()));
        let all = [
            dot(&diagram),
            mermaid(&diagram),
            svg(&diagram),
            html(std::slice::from_ref(&diagram), ""),
        ];
        assert!(all.iter().all(|text| !text.is_empty()));
        let json = serde_json::to_value(&diagram).unwrap();
        let count = |key: &str| json[key].as_array().unwrap().len();
        assert_eq!(count("edges") + count("dangling"), nodes * 2 + 1);
    }
}
