//! Lists of byte strings as inputs, in each form that the protocols have for them.

use ovms::{proto::kserve::InferTensorContents, tensor::strings};
use serde_json::json;

use super::{
    Server,
    grpc::{self, Grpc, error},
    http::{JSON_LENGTH, send},
};

/// Form in which strings are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// gRPC, each string in `bytes_contents`.
    Typed,
    /// gRPC, framed in `raw_input_contents`.
    Raw,
    /// REST, each a JSON string; only for text.
    Json,
    /// REST, framed behind the JSON.
    Binary,
}

/// The forms that can carry any bytes.
pub(crate) const ANY_BYTES: [Form; 3] = [Form::Typed, Form::Raw, Form::Binary];

/// All forms.
pub(crate) const FORMS: [Form; 4] = [Form::Typed, Form::Raw, Form::Json, Form::Binary];

/// An output as received.
#[derive(Debug, PartialEq)]
pub(crate) struct Output {
    pub(crate) datatype: String,
    pub(crate) shape: Vec<i64>,
    pub(crate) data: Vec<u8>,
}

/// A server, and a model of it with one input and one output.
pub(crate) struct Served<'a> {
    pub(crate) server: &'a Server,
    pub(crate) grpc: Grpc,
    pub(crate) model: &'static str,
    pub(crate) input: &'static str,
}

impl<'a> Served<'a> {
    pub(crate) fn of(server: &'a Server, model: &'static str, input: &'static str) -> Self {
        Self {
            server,
            grpc: Grpc::connect(server),
            model,
            input,
        }
    }

    /// Sends strings in a form and with a shape; returns the output's bytes, or code and text of
    /// the error.
    pub(crate) fn ask(
        &self,
        form: Form,
        shape: &[i64],
        strings: &[&[u8]],
    ) -> Result<Output, String> {
        self.ask_raw(form, shape, &framed(strings), strings)
    }

    /// Sends framed bytes, valid or not, in a framed form.
    pub(crate) fn ask_framed(
        &self,
        form: Form,
        shape: &[i64],
        framed: &[u8],
    ) -> Result<Output, String> {
        self.ask_raw(form, shape, framed, &[])
    }

    fn ask_raw(
        &self,
        form: Form,
        shape: &[i64],
        framed: &[u8],
        strings: &[&[u8]],
    ) -> Result<Output, String> {
        let request = match form {
            Form::Typed => {
                let contents = InferTensorContents {
                    bytes_contents: strings.iter().map(|it| it.to_vec().into()).collect(),
                    ..InferTensorContents::default()
                };
                grpc::typed(self.model, self.input, "BYTES", shape, contents)
            }
            Form::Raw => grpc::raw(self.model, self.input, "BYTES", shape, framed),
            Form::Json => {
                let texts: Vec<_> = strings
                    .iter()
                    .map(|string| std::str::from_utf8(string).expect("it is text"))
                    .collect();
                let rest = json!({ "data": texts });
                return self.post(shape, &rest, &[]);
            }
            Form::Binary => {
                let rest = json!({ "parameters": { "binary_data_size": framed.len() } });
                return self.post(shape, &rest, framed);
            }
        };
        let mut answer = self.grpc.infer(request).map_err(|status| error(&status))?;
        let output = answer.outputs.remove(0);
        Ok(Output {
            datatype: output.datatype,
            shape: output.shape,
            data: answer.raw_output_contents.remove(0).to_vec(),
        })
    }

    /// Sends an input of strings over REST with more fields of its own, and bytes behind the JSON.
    pub(crate) fn post(
        &self,
        shape: &[i64],
        rest: &serde_json::Value,
        binary: &[u8],
    ) -> Result<Output, String> {
        let mut input = json!({ "name": self.input, "shape": shape, "datatype": "BYTES" });
        let fields = rest.as_object().expect("it is an object").clone();
        input.as_object_mut().expect("it is one").extend(fields);
        let request = json!({
            "inputs": [input],
            "parameters": { "binary_data_output": true },
            "outputs": [{ "name": self.output() }],
        });
        let mut body = request.to_string().into_bytes();
        let length = body.len().to_string();
        body.extend_from_slice(binary);
        let path = format!("/v2/models/{}/infer", self.model);
        let headers = [(JSON_LENGTH, length.as_str())];
        let answer = send(self.server, "POST", &path, &headers, &body);
        if answer.status != 200 {
            return Err(answer.error());
        }
        let (json, data) = answer.parts();
        let output = &json["outputs"][0];
        let shape = output["shape"].as_array().expect("it has one").iter();
        Ok(Output {
            datatype: output["datatype"].as_str().expect("it is text").to_owned(),
            shape: shape.map(|it| it.as_i64().expect("a length")).collect(),
            data: data.to_vec(),
        })
    }

    fn output(&self) -> &'static str {
        match self.model {
            "text" => "text_string",
            "classifier" => "scores",
            _ => "out",
        }
    }
}

/// Frames strings as in the protocols.
pub(crate) fn framed(list: &[&[u8]]) -> Vec<u8> {
    let mut framed = Vec::new();
    for string in list {
        strings::push(&mut framed, string).expect("it is short");
    }
    framed
}
