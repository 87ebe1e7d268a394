//! The owners against the real runtime.

use std::{fs, path::Path};

use bytes::Bytes;
use openvino::{ElementType, PropertyKey};

use super::{CompiledModel, Core, GivenOutput, LentInput, Side, Tensor};
use crate::{
    openvino::testing::open,
    tensor::{Dim, PartialShape},
};

/// `y = x + w`, with 1024 numbers of weights.
const MODEL: &str = r#"<?xml version="1.0"?>
<net name="sum" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="?,1024" element_type="f32"/>
<output><port id="0" precision="FP32" names="x"><dim>-1</dim><dim>1024</dim></port></output></layer>
<layer id="1" name="w" type="Const" version="opset1">
<data element_type="f32" shape="1024" offset="0" size="4096"/>
<output><port id="0" precision="FP32"><dim>1024</dim></port></output></layer>
<layer id="2" name="add" type="Add" version="opset1">
<input><port id="0"><dim>-1</dim><dim>1024</dim></port><port id="1"><dim>1024</dim></port></input>
<output><port id="2" precision="FP32" names="y"><dim>-1</dim><dim>1024</dim></port></output></layer>
<layer id="3" name="y" type="Result" version="opset1">
<input><port id="0"><dim>-1</dim><dim>1024</dim></port></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/></edges></net>"#;

fn saved(folder: &Path) -> String {
    let model = folder.join("model.xml");
    fs::write(&model, MODEL).unwrap();
    fs::write(folder.join("model.bin"), 1_f32.to_le_bytes().repeat(1024)).unwrap();
    model.to_str().unwrap().to_owned()
}

fn compiled(folder: &Path) -> CompiledModel {
    let mut core = Core::new().unwrap();
    let model = core.read_model_from_file(&saved(folder), "").unwrap();
    core.compile_model(&model, "CPU").unwrap()
}

#[test]
fn a_port_has_name_type_and_shape() {
    open();
    let folder = tempfile::tempdir().unwrap();
    let mut core = Core::new().unwrap();
    let mut model = core
        .read_model_from_file(&saved(folder.path()), "")
        .unwrap();
    let counts = (model.count(Side::Input), model.count(Side::Output));
    assert_eq!(counts, (Ok(1), Ok(1)));
    let shape = |length| PartialShape(vec![length, Dim::Fixed(1024)]);
    let port = model.port(Side::Input, 0).unwrap();
    assert_eq!(port.get_name().as_deref(), Ok("x"));
    assert_eq!(port.get_element_type(), Ok(ElementType::F32));
    assert_eq!(port.get_shape(), Ok(Some(shape(Dim::Any))));
    assert!(model.is_dynamic());
    model.reshape(&[(0, shape(Dim::Fixed(2)))]).unwrap();
    let port = model.port(Side::Output, 0).unwrap();
    assert_eq!(port.get_name().as_deref(), Ok("y"));
    assert_eq!(port.get_shape(), Ok(Some(shape(Dim::Fixed(2)))));
    assert!(!model.is_dynamic());
    assert!(model.port(Side::Input, 1).is_err());
}

#[test]
fn the_last_port_of_a_model_gives_its_weights_back() {
    open();
    let folder = tempfile::tempdir().unwrap();
    let mut core = Core::new().unwrap();
    let model = core
        .read_model_from_file(&saved(folder.path()), "")
        .unwrap();
    let is_mapped = || {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.contains(folder.path().to_str().unwrap())
    };
    let ports = [Side::Input, Side::Output].map(|side| model.port(side, 0));
    drop(model);
    assert!(is_mapped(), "a port keeps its model");
    drop(ports);
    assert!(!is_mapped());
}

#[test]
fn an_inference_reads_one_tensor_and_writes_another() {
    open();
    let folder = tempfile::tempdir().unwrap();
    let mut request = compiled(folder.path()).create_infer_request().unwrap();
    let mut input = Tensor::zeros(ElementType::F32, &[2, 1024]).unwrap();
    assert!(input.get_raw_data().unwrap().iter().all(|&byte| byte == 0));
    input
        .get_raw_data_mut()
        .unwrap()
        .copy_from_slice(&2_f32.to_le_bytes().repeat(2048));
    request.set_tensor(Side::Input, 0, &input).unwrap();
    drop(input);
    request.infer().unwrap();
    let output = request.tensor(Side::Output, 0).unwrap();
    drop(request);
    assert_eq!(output.get_shape(), Ok(vec![2, 1024]));
    assert_eq!(
        output.get_raw_data().unwrap(),
        3_f32.to_le_bytes().repeat(2048)
    );
}

#[test]
fn an_input_is_read_where_it_lies() {
    open();
    let folder = tempfile::tempdir().unwrap();
    let mut request = compiled(folder.path()).create_infer_request().unwrap();
    let own = Tensor::zeros(ElementType::F32, &[2, 1024]).unwrap();
    request.set_tensor(Side::Input, 0, &own).unwrap();
    // At an address that is no multiple of a line of the cache.
    let numbers = |number: f32, count| number.to_le_bytes().repeat(count);
    let all = Bytes::from([vec![0; 4], numbers(2.0, 3 * 1024)].concat());
    let bytes = all.slice(4..);
    let sums = |request: &super::InferRequest| {
        let output = request.tensor(Side::Output, 0).unwrap();
        output.get_raw_data().unwrap().to_vec()
    };
    let input = |element, shape| LentInput {
        index: 0,
        element,
        shape,
        bytes: &bytes,
        own: &own,
    };
    let ran = request.lend(&[input(ElementType::F32, &[3, 1024])], |request| {
        let of_other = [&own.get_raw_data().unwrap()[..4], &bytes[..4]];
        assert_ne!(of_other[0], of_other[1]);
        request.infer().map(|()| sums(request))
    });
    assert_eq!(ran, Ok(Ok(numbers(3.0, 3 * 1024))));
    assert_eq!(bytes, numbers(2.0, 3 * 1024));
    drop(ran);
    request.infer().unwrap();
    assert_eq!(sums(&request), numbers(1.0, 2 * 1024), "its own again");
    // Refused, and its own again.
    for (element, shape) in [
        (ElementType::F32, &[2, 1024][..]),
        (ElementType::I8, &[3, 4096]),
        (ElementType::String, &[3, 1024]),
        (ElementType::F32, &[]),
    ] {
        let refused = request.lend(&[input(element, shape)], |_| ());
        assert!(refused.is_err(), "{element:?} {shape:?}");
    }
    request.infer().unwrap();
    assert_eq!(sums(&request), numbers(1.0, 2 * 1024));
    drop(bytes);
    assert!(all.is_unique(), "nothing is kept");
}

#[test]
fn an_output_is_given_away_and_its_tensor_taken_again() {
    open();
    let folder = tempfile::tempdir().unwrap();
    let mut core = Core::new().unwrap();
    let mut model = core
        .read_model_from_file(&saved(folder.path()), "")
        .unwrap();
    let shape = PartialShape(vec![Dim::Fixed(2), Dim::Fixed(1024)]);
    model.reshape(&[(0, shape)]).unwrap();
    let mut compiled = core.compile_model(&model, "CPU").unwrap();
    let mut request = compiled.create_infer_request().unwrap();
    let tensor = request.tensor(Side::Output, 0).unwrap();
    let mut output = GivenOutput::new(0, &[2, 1024], tensor).unwrap();
    let numbers = |number: f32| number.to_le_bytes().repeat(2048);
    let mut run = |number: f32| {
        let mut input = request.tensor(Side::Input, 0).unwrap();
        input
            .get_raw_data_mut()
            .unwrap()
            .copy_from_slice(&numbers(number));
        request.infer().unwrap();
        assert_eq!(
            output.tensor().get_raw_data().unwrap(),
            numbers(number + 1.0)
        );
        output.give(&mut request).unwrap()
    };
    let all = [0.0, 1.0, 2.0, 3.0].map(&mut run);
    for (place, bytes) in all.iter().enumerate() {
        assert_eq!(bytes, &numbers(place as f32 + 1.0), "{place}");
    }
    let first = all[0].as_ptr();
    drop(all);
    let [second, again, third] = [4.0, 5.0, 6.0].map(&mut run);
    assert!(![second.as_ptr(), third.as_ptr()].contains(&again.as_ptr()));
    assert_eq!(
        [&second[..4], &again[..4], &third[..4]],
        [5_f32, 6.0, 7.0].map(f32::to_le_bytes)
    );
    // Two of the four were kept for those that come.
    assert!(
        [second, again, third]
            .iter()
            .any(|bytes| bytes.as_ptr() == first)
    );
}

#[test]
fn a_tensor_without_elements_has_no_bytes() {
    open();
    let mut tensor = Tensor::zeros(ElementType::F32, &[0, 3]).unwrap();
    assert_eq!(tensor.get_raw_data(), Ok(&[][..]));
    assert_eq!(tensor.get_raw_data_mut(), Ok(&mut [][..]));
    assert_eq!(tensor.get_shape(), Ok(vec![0, 3]));
    assert!(Tensor::zeros(ElementType::F32, &[]).is_err());
}

#[test]
fn refusals_have_the_runtimes_message() {
    open();
    let mut core = Core::new().unwrap();
    let error = core.add_extension(Path::new("/no/such/library.so"));
    let message = error.unwrap_err().message.unwrap();
    assert!(message.contains("library.so"), "{message}");
    let error = core.get_property("C\0PU", &PropertyKey::DeviceFullName);
    let message = error.unwrap_err().message.unwrap();
    assert_eq!(message, "a text has a zero byte");
}
