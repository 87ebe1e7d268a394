//! Inputs and outputs of a model, for users who gave no inputs.

use ovms::{
    client::{Address, Api, ClientOptions, ModelMetadata, TensorMetadata, input::ImageLayout},
    tensor::DataType,
    tls::ClientTls,
};

use super::curl;

use crate::{
    error::Failure,
    ui::{self, Look, Table, shell_word},
};

/// Maximum number of elements that an example writes out.
const MAX_WRITTEN: usize = 4;

/// Prints the model's inputs and outputs, and returns the failure with an example.
pub(super) fn no_inputs(name: &str, model: &ModelMetadata, server: &ClientOptions) -> Failure {
    ui::note(explanation(model, Look::of_stderr()).trim_end());
    ui::note("");
    Failure::usage(format!("no input given for model `{name}`"))
        .hint(format!(
            "such as: {}{}",
            example(name, model),
            server_flags(server)
        ))
        .hint("or fill every input with `--zeros` or `--random`")
}

/// Draws the inputs and outputs.
pub(crate) fn explanation(model: &ModelMetadata, look: Look) -> String {
    let mut text = tensors("input", &model.inputs, look);
    if !model.outputs.is_empty() {
        text.push('\n');
        text += &tensors("output", &model.outputs, look);
    }
    text
}

fn tensors(title: &str, tensors: &[TensorMetadata], look: Look) -> String {
    let mut table = Table::new().left([title, "datatype", "shape"]);
    for tensor in tensors {
        table.row(tensor_cells(tensor));
    }
    table.draw(look)
}

/// Writes name, datatype and shape.
pub(super) fn tensor_cells(tensor: &TensorMetadata) -> [String; 3] {
    let datatype = match tensor.dtype() {
        Some(dtype) => dtype.to_string(),
        None => "unknown".to_owned(),
    };
    [tensor.name.clone(), datatype, tensor.shape.to_string()]
}

fn example(name: &str, model: &ModelMetadata) -> String {
    let inputs = model.inputs.iter().map(|input| {
        let argument = format!("{}={}", input.name, value(input));
        format!(" -i {}", shell_word(&argument))
    });
    let inputs: String = inputs.collect();
    format!("ovms infer {}{inputs}", shell_word(name))
}

/// Returns the flags that lead to the server, unless it is the default one.
fn server_flags(server: &ClientOptions) -> String {
    let (address, api) = (&server.address, server.api);
    let is_usual = Address::parse("localhost", api).as_ref() == Ok(address);
    let api = match api {
        Api::KserveGrpc => String::new(),
        _ => format!(" --api {api}"),
    };
    if is_usual {
        api
    } else {
        let mut flags = format!(" --url {}{api}", shell_word(&address.to_string()));
        let tls = server.tls.as_ref().map(ClientTls::options);
        curl::push_tls(
            &mut flags,
            tls,
            ["--cacert", "--cert", "--key", "--insecure"],
        );
        flags
    }
}

/// Returns a typical value for an input.
fn value(input: &TensorMetadata) -> String {
    let shape = &input.shape;
    let zero = match input.dtype() {
        Some(DataType::String) => return "some text".to_owned(),
        Some(DataType::Bool) => "false",
        Some(_) => "0",
        None => return "@file.npy".to_owned(),
    };
    match shape.fixed() {
        _ if ImageLayout::of_shape(shape).is_some() => "@image.png".to_owned(),
        Some(lengths) if lengths.is_empty() => zero.to_owned(),
        Some(lengths) if lengths.iter().product::<usize>() <= MAX_WRITTEN => {
            let zeros = vec![zero; lengths.iter().product()];
            format!("[{}]", zeros.join(", "))
        }
        _ => "@file.npy".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ovms::{
        client::{Address, Api, ClientOptions, ModelMetadata, TensorMetadata},
        tensor::{Dim, PartialShape},
    };
    use reqwest::header::HeaderMap;

    use super::{example, explanation, server_flags};
    use crate::ui::Look;

    fn tensor(name: &str, datatype: &str, dims: &[Dim]) -> TensorMetadata {
        TensorMetadata {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape: PartialShape(dims.to_vec()),
        }
    }

    #[test]
    fn the_way_to_another_server_is_repeated() {
        let flags = |url: &str, api| {
            server_flags(&ClientOptions {
                address: Address::parse(url, api).unwrap(),
                api,
                timeout: Duration::from_secs(1),
                headers: HeaderMap::new(),
                concurrency: 1,
                tls: None,
            })
        };
        assert_eq!(flags("localhost:9000", Api::KserveGrpc), "");
        assert_eq!(flags("a:9000", Api::KserveGrpc), " --url a:9000");
        assert_eq!(flags("localhost", Api::KserveRest), " --api kserve-rest");
        assert_eq!(flags("localhost", Api::TfsGrpc), " --api tfs-grpc");
        assert_eq!(
            flags("[::1]:80", Api::KserveRest),
            " --url '[::1]:80' --api kserve-rest"
        );
    }

    #[test]
    fn inputs_are_explained_with_an_example() {
        let model = ModelMetadata {
            name: "m".to_owned(),
            versions: Vec::new(),
            platform: String::new(),
            properties: Default::default(),
            inputs: vec![
                tensor(
                    "pixels",
                    "FP32",
                    &[Dim::Any, Dim::Fixed(3), Dim::Any, Dim::Any],
                ),
                tensor("a b", "INT64", &[Dim::Fixed(2)]),
                tensor("flag", "BOOL", &[]),
                tensor("rows", "FP16", &[Dim::Any, Dim::Fixed(10)]),
                tensor("text", "BYTES", &[Dim::Any]),
                tensor("stream", "INVALID", &[]),
            ],
            outputs: vec![tensor("y", "FP32", &[Dim::Any, Dim::Fixed(10)])],
        };
        insta::assert_snapshot!(explanation(&model, Look::Plain), @r"
        input   datatype  shape
        pixels  FP32      (-1,3,-1,-1)
        a b     INT64     (2)
        flag    BOOL      ()
        rows    FP16      (-1,10)
        text    BYTES     (-1)
        stream  not told  ()

        output  datatype  shape
        y       FP32      (-1,10)
        ");
        insta::assert_snapshot!(
            example("m", &model),
            @"ovms infer m -i pixels=@image.png -i 'a b=[0, 0]' -i flag=false -i rows=@file.npy -i 'text=some text' -i stream=@file.npy"
        );
    }
}
