//! The command line: arguments, output, completions, the manual.

mod bench;
mod bench_baseline;
mod bench_requests;
mod completions_names;
mod completions_shells;
mod doctor;
mod examples;
mod flags;
mod help;
mod infer;
mod infer_errors;
mod infer_images;
mod infer_load;
mod infer_stream;
mod manual;
mod output_errors;
mod scripting_curl;
mod scripting_json;
mod scripting_pipes;
mod serve;
mod setup;
mod shared;
mod sheets;
mod summary;
mod terminal;
