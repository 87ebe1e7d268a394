//! Diagrams and tables in one HTML file, which loads nothing.

use askama::Template;

use super::{
    diagram::{Diagram, DiagramKind, DiagramPort, EdgeSource, StreamKind},
    drawing::{parts, runs, times},
    escape::{visible, xml_lines},
    svg::{STYLE, SvgElement},
};

/// Draws diagrams on one page, with tables of their nodes and edges.
pub fn html(diagrams: &[Diagram], title: &str) -> String {
    format!("{}\n", DiagramPage { diagrams, title })
}

#[derive(Template)]
#[template(path = "diagrams.html")]
struct DiagramPage<'a> {
    diagrams: &'a [Diagram],
    title: &'a str,
}

/// Table of texts, without columns that are empty.
struct Table {
    title: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new<const N: usize>(
        title: &'static str,
        columns: &'static str,
        rows: impl Iterator<Item = [String; N]>,
    ) -> Self {
        let rows: Vec<[String; N]> = rows.collect();
        let used = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
        let used: Vec<usize> = (0..N).filter(used).collect();
        let row = |row: &[String; N]| used.iter().map(|column| row[*column].clone()).collect();
        let columns = columns.split(',').enumerate();
        let columns = columns.filter(|(column, _)| used.contains(column));
        Self {
            title,
            columns: columns.map(|(_, title)| title).collect(),
            rows: rows.iter().map(row).collect(),
        }
    }
}

fn element(diagram: &Diagram) -> SvgElement {
    SvgElement::within(diagram)
}

fn tables(diagram: &Diagram) -> [Table; 2] {
    let name = |node: usize| diagram.nodes[node].name.clone();
    let level = |level: &usize| {
        let level = &diagram.levels[*level];
        format!("{} × {}", name(level.node), times(level.count))
    };
    let nodes = diagram.nodes.iter().map(|node| {
        let mut runs = runs(node, visible);
        runs.extend(node.missing.iter().map(|missing| missing.text.clone()));
        let levels: Vec<String> = node.levels.iter().map(level).collect();
        [
            node.name.clone(),
            runs.join("\n"),
            levels.join("\n"),
            ports(&node.inputs),
            ports(&node.outputs),
            parts(node, visible).join("\n"),
        ]
    });
    let edges = diagram.edges.iter().map(|edge| {
        let stream = edge.stream.as_ref();
        let kind = stream.map_or("", |stream| match stream.kind {
            StreamKind::Stream => "stream",
            StreamKind::BackEdge => "stream, back edge",
            StreamKind::SidePacket => "side packet",
        });
        let no_output = match edge.lacks_output() {
            true => " (no such output)",
            false => "",
        };
        [
            stream.map_or_else(String::new, |stream| stream.name.clone()),
            kind.to_owned(),
            match &edge.from {
                EdgeSource::Node(from) => name(*from),
                EdgeSource::Missing(name) => format!("{name} (missing)"),
                EdgeSource::Nobody => "(nobody)".to_owned(),
            },
            format!("{}{no_output}", edge.output),
            name(edge.to),
            edge.input.clone(),
            diagram.content(edge),
        ]
    });
    let title = match diagram.kind {
        DiagramKind::Pipeline => "Connections",
        DiagramKind::Graph => "Streams and side packets",
    };
    let of_nodes = "node,runs,levels,inputs,outputs,splits or gathers";
    let of_edges = "name,what,from,output,to,input,carries";
    [
        Table::new("Nodes", of_nodes, nodes),
        Table::new(title, of_edges, edges),
    ]
}

fn ports(ports: &[DiagramPort]) -> String {
    let lines = ports.iter().map(|port| {
        let item = port.data_item.iter().map(|item| format!(" ({item})"));
        let tensor = port.tensor.iter().filter(|it| it.shape.is_some());
        let tensor = tensor.map(|tensor| format!("  {tensor}"));
        port.name.clone() + &item.chain(tensor).collect::<String>()
    });
    lines.collect::<Vec<_>>().join("\n")
}
