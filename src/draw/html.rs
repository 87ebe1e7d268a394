//! Diagrams and tables in one HTML file, which loads nothing.

use super::{
    escape::xml,
    graph::{Drawing, times},
    labels::{kind, tensor},
    svg,
};
use crate::pipeline::{OutlinePort, PipelineOutline};

const STYLE: &str = "\
:root{color-scheme:light dark;--paper:#fff;--ink:#1f2328;--soft:#656d76;--line:#d0d7de;--head:#f6f8fa}\
@media (prefers-color-scheme:dark){:root{--paper:#0d1117;--ink:#e6edf3;--soft:#8d96a0;\
--line:#30363d;--head:#161b22}}\
body{margin:0 auto;max-width:75rem;padding:1.5rem;background:var(--paper);color:var(--ink);\
font:15px/1.5 system-ui,sans-serif}\
h1{font-size:1.2rem;font-weight:400;color:var(--soft);overflow-wrap:anywhere}\
h2{font-size:1.5rem;margin:2rem 0 .5rem;overflow-wrap:anywhere}\
.picture{overflow-x:auto;border:1px solid var(--line);border-radius:8px;padding:.5rem}\
.picture svg{display:block;margin:auto}\
.node{cursor:default}\
details{margin:1rem 0}summary{cursor:pointer;font-weight:600}\
.table{overflow-x:auto}\
table{border-collapse:collapse;margin:.5rem 0;font-size:14px}\
th,td{border:1px solid var(--line);padding:.3rem .6rem;text-align:left;vertical-align:top}\
th{background:var(--head)}\
td{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;font-size:13px;\
white-space:pre-line}\
.key{color:var(--soft);font-size:13px}.key b{font-weight:600}";

/// Marks the lines of a box while the pointer is over it.
const SCRIPT: &str = "\
for(const s of document.querySelectorAll('svg.pipeline')){\
const set=(n,on)=>{const ids=new Set([n]);\
for(const e of s.querySelectorAll('.edge'))if(e.dataset.from===n||e.dataset.to===n){\
e.classList.toggle('on',on);ids.add(e.dataset.from).add(e.dataset.to);if(on)e.parentNode.insertBefore(\
e,s.querySelector('.joint,.node'))}\
for(const b of s.querySelectorAll('.node'))if(ids.has(b.dataset.node))b.classList.toggle('on',on)};\
for(const b of s.querySelectorAll('.node')){b.addEventListener('mouseenter',()=>set(b.dataset.node,true));\
b.addEventListener('mouseleave',()=>set(b.dataset.node,false))}}";

/// Draws pipelines on one page, with tables of their nodes and connections.
#[must_use]
pub fn html(outlines: &[PipelineOutline], title: &str) -> String {
    page(title, |text| {
        for outline in outlines {
            text.extend([format!(
                "<section>\n<h2>{}</h2>\n<div class=\"picture\">\n{}</div>\n",
                xml(&outline.name),
                svg::element(&Drawing::new(outline), "", "")
            )]);
            *text += &table("Nodes", &NODES, &nodes(outline));
            *text += &table("Connections", &CONNECTIONS, &connections(outline));
            *text += "</section>\n";
        }
    })
}

/// Writes a page around its sections.
pub(super) fn page(title: &str, sections: impl FnOnce(&mut String)) -> String {
    let title = xml(title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}\n{}</style>\n</head>\n<body>\n<h1>{title}</h1>\n",
        svg::STYLE
    );
    sections(&mut text);
    text.extend([format!("<script>{SCRIPT}</script>\n</body>\n</html>\n")]);
    text
}

const NODES: [&str; 6] = [
    "node",
    "runs",
    "levels",
    "inputs",
    "outputs",
    "splits or gathers",
];

fn nodes(outline: &PipelineOutline) -> Vec<Vec<String>> {
    let rows = outline.nodes.iter().map(|node| {
        let levels = node.levels.iter().map(|level| {
            let level = &outline.levels[*level];
            format!(
                "{} × {}",
                outline.nodes[level.node].name,
                times(level.count)
            )
        });
        let gathers = node.gathers.iter().map(|name| format!("gathers {name}"));
        let splits = node.opens.map(|count| format!("splits × {}", times(count)));
        let changes: Vec<String> = gathers.chain(splits).collect();
        let missing = node.missing.iter().map(|missing| missing.text.clone());
        let runs: Vec<String> = kind(&node.kind).into_iter().chain(missing).collect();
        vec![
            node.name.clone(),
            runs.join("\n"),
            levels.collect::<Vec<_>>().join("\n"),
            ports(&node.inputs),
            ports(&node.outputs),
            changes.join("\n"),
        ]
    });
    rows.collect()
}

fn ports(ports: &[OutlinePort]) -> String {
    let lines = ports.iter().map(|port| {
        let name = if port.name == port.real {
            port.name.clone()
        } else {
            format!("{} ({})", port.name, port.real)
        };
        match &port.tensor {
            Some(known) => format!("{name}  {}", tensor(known)),
            None => name,
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

const CONNECTIONS: [&str; 5] = ["from", "output", "to", "input", "type and shape"];

fn connections(outline: &PipelineOutline) -> Vec<Vec<String>> {
    let edges = outline.edges.iter().map(|edge| {
        vec![
            outline.nodes[edge.from].name.clone(),
            if edge.is_there {
                edge.item.clone()
            } else {
                format!("{} (no such output)", edge.item)
            },
            outline.nodes[edge.to].name.clone(),
            edge.input.clone(),
            edge.tensor.as_ref().map(tensor).unwrap_or_default(),
        ]
    });
    let dangling = outline.dangling.iter().map(|dangling| {
        vec![
            format!("{} (missing)", dangling.source),
            dangling.item.clone(),
            outline.nodes[dangling.to].name.clone(),
            dangling.input.clone(),
            String::new(),
        ]
    });
    edges.chain(dangling).collect()
}

pub(super) fn table(title: &str, columns: &[&str], rows: &[Vec<String>]) -> String {
    let head: String = columns.iter().map(|it| format!("<th>{it}</th>")).collect();
    let mut text = format!(
        "<details><summary>{title}</summary><div class=\"table\"><table>\n<tr>{head}</tr>\n"
    );
    for row in rows {
        let cells = row.iter().map(|cell| {
            let lines: Vec<String> = cell.split('\n').map(xml).collect();
            format!("<td>{}</td>", lines.join("\n"))
        });
        text.extend([format!("<tr>{}</tr>\n", cells.collect::<String>())]);
    }
    text += "</table></div></details>\n";
    text
}
