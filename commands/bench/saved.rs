//! Two saved reports, compared without a server.

use std::path::{Path, PathBuf};

use super::{
    args::{BenchArgs, BenchFormat},
    csv,
    differences::{differing, gate, remark},
    html,
    plan::{check_page, check_verdict, read_report},
    run::{NOT_COVERED, compared, found, uncertain, write},
    text,
};
use crate::{
    error::{Failure, unless_unread},
    ui::{self, Look},
};

/// Returns the report in place of a model, if one is to be compared.
pub(super) fn report_of(args: &BenchArgs) -> Option<PathBuf> {
    let path = Path::new(&args.model);
    let is_json = path.extension().is_some_and(|it| it == "json");
    // One that is not there is missed as a report, and no model that a server is asked for.
    let is_report = args.verdict.against.is_some() && is_json && !path.is_dir();
    is_report.then(|| path.to_owned())
}

/// Compares it with that of `--against`.
pub(super) fn run(path: &Path, args: BenchArgs) -> Result<(), Failure> {
    let BenchArgs {
        output, verdict, ..
    } = args;
    check_verdict(&verdict)?;
    if output.save.is_some() {
        return Err(Failure::usage("`--save` does not fit a saved report")
            .hint("`--output json` has the comparison, and `--html FILE` writes a page"));
    }
    let Some(against) = &verdict.against else {
        return Ok(());
    };
    check_page(&output, [Some(against.as_path()), Some(path)])?;
    let (before, mut report) = (read_report(against)?, read_report(path)?);
    gate(&before, &report, &verdict)?;
    report.differs = differing(&before, &report);
    report.comparison = compared(&before.levels, &report.levels);
    if report.comparison.is_empty() {
        let (before, after) = (against.display(), path.display());
        return Err(
            Failure::failed(format!("{before} and {after} have no level in common"))
                .hint("measure both with the same `--concurrency` or `--rate`"),
        );
    }
    let conditions = verdict.fail_if.iter();
    let findings = conditions.flat_map(|it| it.findings(&report.levels, &report.comparison));
    report.findings = findings.collect();
    let table = |look| text::compared_with(&report, look).unwrap_or_default();
    unless_unread(ui::print(match output.output {
        BenchFormat::Table => table(Look::of_stdout()),
        BenchFormat::Json => {
            serde_json::to_string(&report).expect("numbers and texts have a JSON form") + "\n"
        }
        BenchFormat::Csv => csv::report(&report),
    }))?;
    if output.output == BenchFormat::Csv {
        ui::print_aside(&table(Look::of_stderr()));
    }
    if let Some(page) = &output.html {
        write(page, html::report(&report))?;
    }
    ui::note(NOT_COVERED);
    remark(&report.differs);
    for warning in uncertain(&report, verdict.is_by_comparison()) {
        ui::warn(&warning);
    }
    match report.findings.as_slice() {
        [] => Ok(()),
        findings => Err(findings.iter().fold(found(findings), Failure::detail)),
    }
}
