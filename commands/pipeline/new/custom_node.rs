//! Skeletons of custom nodes, in C++ and in Python, each with a pipeline of that node alone.

use std::path::{Path, PathBuf};

use askama::Template;
use ovms::{custom_node::HEADER, python, scaffold::handler_file};

use super::{handler_tests, named, typed};
use crate::{error::Failure, ui::OutputFormat, written_files};

/// Flag with an input of the pipeline of a Python node, as typed in a shell.
const INPUT: &str = "-i 'numbers:FP32=[1,2,3]'";

/// Text of a file. Names need no escaping in any of them.
#[derive(Template)]
enum NodeText<'a> {
    /// The node in C++.
    #[template(path = "node.cpp.jinja")]
    Cpp { name: &'a str },
    /// Makefile of its library.
    #[template(path = "Makefile.jinja")]
    Makefile { name: &'a str },
    /// The handler of a node in Python.
    #[template(path = "node.py.jinja")]
    Handler { name: &'a str },
    /// Tests of the handler, for a plain interpreter.
    #[template(path = "node_test.py.jinja")]
    Test { name: &'a str, handler: &'a str },
    /// Configuration file with the pipeline.
    #[template(path = "node.json.jinja")]
    Config {
        name: &'a str,
        is_python: bool,
        /// File of the library or handler.
        library: &'a str,
    },
}

impl NodeText<'_> {
    fn text(&self) -> String {
        // askama strips the final newline.
        format!("{self}\n")
    }
}

/// Folder, name, and options of a skeleton, as typed.
pub(super) struct Skeleton {
    /// Name of the node.
    name: String,
    folder: PathBuf,
    force: bool,
    output: OutputFormat,
}

impl Skeleton {
    /// Creates one for a folder, or for that of the node's name.
    pub(super) fn new(
        name: &str,
        folder: Option<&Path>,
        force: bool,
        output: OutputFormat,
    ) -> Result<Self, Failure> {
        named(name, "custom node")?;
        let folder = folder.map_or_else(|| PathBuf::from(name), Path::to_owned);
        Ok(Self {
            name: name.to_owned(),
            folder,
            force,
            output,
        })
    }

    /// Writes a node in C++.
    pub(super) fn cpp(&self) -> Result<(), Failure> {
        let name = &self.name;
        let config = NodeText::Config {
            name,
            is_python: false,
            library: &format!("lib{name}.so"),
        };
        let files = [
            (format!("{name}.cpp"), NodeText::Cpp { name }.text()),
            ("custom_node_interface.h".to_owned(), HEADER.to_owned()),
            ("Makefile".to_owned(), NodeText::Makefile { name }.text()),
            ("config.json".to_owned(), config.text()),
        ];
        let next = [
            format!("make -C {}", typed(&self.folder)),
            format!("ovms pipeline check {}", self.config()),
        ];
        self.write(files, &next)
    }

    /// Writes a node in Python, with a test of its handler.
    pub(super) fn python(&self) -> Result<(), Failure> {
        let (name, handler) = (&self.name, handler_file(&self.name));
        let config = NodeText::Config {
            name,
            is_python: true,
            library: &handler,
        };
        let tests = NodeText::Test {
            name,
            handler: &handler,
        };
        // A name that `python -m unittest` finds.
        let test = format!("test_{}.py", name.to_ascii_lowercase().replace('-', "_"));
        let files = [
            (handler.clone(), NodeText::Handler { name }.text()),
            (test, tests.text()),
            ("pyovms.pyi".to_owned(), python::STUB.to_owned()),
            ("config.json".to_owned(), config.text()),
        ];
        let config = self.config();
        let [stubs, test] = handler_tests(&self.folder);
        let next = [
            format!("ovms pipeline check {config}"),
            format!("ovms pipeline run {config} {INPUT}"),
            stubs,
            test,
            format!("ovms serve --config-path {config} --port 9000"),
            format!("ovms infer {name}_pipeline {INPUT}"),
        ];
        self.write(files, &next)
    }

    fn config(&self) -> String {
        typed(&self.folder.join("config.json"))
    }

    /// Writes all files into the folder or none of them; creates the folder if it is missing.
    fn write<const N: usize>(
        &self,
        files: [(String, String); N],
        next: &[String],
    ) -> Result<(), Failure> {
        let files = files.map(|(name, text)| (self.folder.join(name), text));
        for (path, _) in &files {
            written_files::refuse_existing(path, self.force)?;
        }
        written_files::write_into(&self.folder, &files, |_| self.force)?;
        let files: Vec<&Path> = files.iter().map(|(path, _)| path.as_path()).collect();
        written_files::report(&files, next, self.output)
    }
}
