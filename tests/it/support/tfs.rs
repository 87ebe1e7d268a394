//! TensorFlow Serving's gRPC clients for tests, and requests that are easy to modify.

use ovms::proto::{
    tensorflow::{DataType, TensorProto, TensorShapeProto, tensor_shape_proto::Dim},
    tensorflow_serving::{
        ModelSpec, PredictRequest, PredictResponse, model_spec::VersionChoice,
        prediction_service_client::PredictionServiceClient,
    },
};
use tonic::{IntoRequest, Status, transport::Channel};

use super::{
    Server,
    grpc::{Grpc, error, floats, to_floats},
};

/// Clients of both services.
pub(crate) struct Tfs {
    pub(crate) grpc: Grpc,
    pub(crate) prediction: PredictionServiceClient<Channel>,
}

impl Tfs {
    /// Connects to a server.
    pub(crate) fn connect(server: &Server) -> Self {
        let grpc = Grpc::connect(server);
        let prediction = Self::over(&grpc);
        Self { grpc, prediction }
    }

    /// Makes the client of predictions over a connection.
    pub(crate) fn over(grpc: &Grpc) -> PredictionServiceClient<Channel> {
        PredictionServiceClient::new(grpc.channel.clone())
            .max_decoding_message_size(1 << 30)
            .max_encoding_message_size(1 << 30)
    }

    /// Sends one inference request.
    pub(crate) fn predict(
        &self,
        request: impl IntoRequest<PredictRequest>,
    ) -> Result<PredictResponse, Status> {
        let (mut client, request) = (self.prediction.clone(), request.into_request());
        self.grpc.wait(async move { client.predict(request).await })
    }

    /// Sends a request that must succeed.
    pub(crate) fn answered(&self, request: PredictRequest) -> PredictResponse {
        self.predict(request).expect("the request is good")
    }

    /// Sends a request that must be refused; returns its code and text.
    pub(crate) fn refused(&self, request: PredictRequest) -> String {
        error(&self.predict(request).expect_err("the request is bad"))
    }

    /// Asserts that the server answers a valid request for the model `dummy`.
    pub(crate) fn check_serves(&self) {
        let answer = self.answered(dummy());
        assert_eq!(to_floats(&answer.outputs["a"].tensor_content), [2.0; 10]);
    }
}

/// Makes the spec of a model; version 0 is the default one.
pub(crate) fn spec(name: &str, version: i64) -> Option<ModelSpec> {
    Some(ModelSpec {
        name: name.to_owned(),
        version_choice: Some(VersionChoice::Version(version)),
        signature_name: String::new(),
    })
}

/// Makes a tensor without data.
pub(crate) fn tensor(dtype: DataType, shape: &[i64]) -> TensorProto {
    TensorProto {
        dtype: dtype.into(),
        tensor_shape: Some(TensorShapeProto {
            dim: shape
                .iter()
                .map(|&size| Dim {
                    size,
                    name: String::new(),
                })
                .collect(),
            unknown_rank: false,
        }),
        ..TensorProto::default()
    }
}

/// Makes a tensor of bytes.
pub(crate) fn content(dtype: DataType, shape: &[i64], bytes: &[u8]) -> TensorProto {
    TensorProto {
        tensor_content: bytes.to_vec().into(),
        ..tensor(dtype, shape)
    }
}

/// Makes a request for the default version of a model.
pub(crate) fn request<const N: usize>(
    model: &str,
    inputs: [(&str, TensorProto); N],
) -> PredictRequest {
    PredictRequest {
        model_spec: spec(model, 0),
        inputs: inputs
            .into_iter()
            .map(|(name, tensor)| (name.to_owned(), tensor))
            .collect(),
        output_filter: Vec::new(),
    }
}

/// Returns a valid request for the model `dummy`: ten ones.
pub(crate) fn dummy() -> PredictRequest {
    let ones = content(DataType::DtFloat, &[1, 10], &floats(&[1.0; 10]));
    request("dummy", [("b", ones)])
}

/// Returns the shape of a tensor.
pub(crate) fn shape(tensor: &TensorProto) -> Vec<i64> {
    let shape = tensor.tensor_shape.clone().unwrap_or_default();
    shape.dim.into_iter().map(|dim| dim.size).collect()
}
