//! Steps of a page.

/// A page of the manual.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

/// A step of a page.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    Run(Command),
    Write { name: String, text: String },
}

/// A command with its expected output.
#[derive(Debug, PartialEq)]
pub(crate) struct Command {
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) expected: Vec<String>,
}

impl Page {
    /// Reads the steps of a page.
    pub(crate) fn read(name: &str, text: &str) -> Self {
        let mut steps = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let place = format!("{name}:{}", index + 1);
            let Some(info) = line.strip_prefix("```") else {
                let is_hidden = line.trim_start().starts_with("```console");
                assert!(!is_hidden, "{place}: a block that is indented is not run");
                continue;
            };
            let block: Vec<(usize, &str)> = lines
                .by_ref()
                .map(|(index, line)| (index + 1, line))
                .take_while(|(_, line)| *line != "```")
                .collect();
            match info.split_once(' ') {
                None if info == "console" => {
                    steps.extend(commands(&place, &block).into_iter().map(Step::Run));
                }
                None => (),
                Some((_, file)) => steps.push(Step::Write {
                    name: file.to_owned(),
                    text: block.iter().map(|(_, line)| format!("{line}\n")).collect(),
                }),
            }
        }
        Self {
            name: name.to_owned(),
            steps,
        }
    }

    /// Returns the number of commands.
    pub(crate) fn commands(&self) -> usize {
        let is_run = |step: &&Step| matches!(step, Step::Run(_));
        self.steps.iter().filter(is_run).count()
    }
}

fn commands(place: &str, block: &[(usize, &str)]) -> Vec<Command> {
    let mut found: Vec<Command> = Vec::new();
    for (line, text) in block {
        let line = *line;
        if let Some(command) = text.strip_prefix("$ ") {
            found.push(Command {
                line,
                text: command.to_owned(),
                expected: Vec::new(),
            });
            continue;
        }
        let last = found
            .last_mut()
            .unwrap_or_else(|| panic!("{place}: the block does not begin with `$ `"));
        let more = text.strip_prefix("> ");
        if last.expected.is_empty() && (last.text.ends_with('\\') || more.is_some()) {
            last.text = format!("{}\n{}", last.text, more.unwrap_or(text));
        } else {
            last.expected.push(text.trim_end().to_owned());
        }
    }
    for command in &mut found {
        while command.expected.last().is_some_and(String::is_empty) {
            command.expected.pop();
        }
    }
    found
}
