//! `ovms infer` and inputs that are missing, unknown, or of another form: errors, and hints for the
//! next step.

use std::fs;

use bytes::Bytes;
use ovms::tensor::{DataType, Tensor};

use crate::support::{
    Server, fixture,
    infer::{APIS, GRPC, REST, failures, redacted, tensor, write_npy, write_npz},
    repository,
};

#[test]
fn a_model_explains_its_inputs_to_those_who_give_none() {
    let _redacted = redacted();
    let server = Server::shared("add");
    for api in APIS {
        let texts = failures(
            server,
            api,
            &[
                &["add"],
                &["add", "-i=input1=[1,2,3,4,5,6,7,8,9,10]"],
                &["add", "-i=[1,2,3,4,5,6,7,8,9,10]"],
            ],
        );
        assert_eq!(texts.contains(" --api kserve-rest"), api == REST);
        let texts = texts.replace(" --api kserve-rest", "");
        insta::allow_duplicates! {
            insta::assert_snapshot!(texts, @"
            exit 64
            input   datatype  shape
            input1  FP32      (1,10)
            input2  FP32      (1,10)

            output  datatype  shape
            sum     FP32      (1,10)

            error: no input given for model `add`
            hint: such as: ovms infer add -i input1=@file.npy -i input2=@file.npy --url <address>
            hint: or fill every input with `--zeros` or `--random`

            exit 64
            error: found no value for input `input2` (FP32 (1,10))
            hint: add `-i input2=VALUE`
            hint: or fill what is not given with `--zeros` or `--random`
            hint: `ovms infer add` alone explains the inputs

            exit 64
            error: found a value without a name, the model has 2 inputs
            hint: write `-i NAME=VALUE`: the inputs are `input1`, `input2`
            ");
        }
    }
}

#[test]
fn an_input_that_the_model_does_not_have_is_reported() {
    let server = Server::shared("classifier");
    for api in APIS {
        let texts = failures(
            server,
            api,
            &[
                &["classifier", "-i=imgae=[1]"],
                &["classifier", "-i=x=[1]"],
                &["classifier", "-i=x=[1]", "--zeros"],
                &["classifier", "-i=image=1", "-i=image=2"],
            ],
        );
        insta::allow_duplicates! {
            insta::assert_snapshot!(texts, @"
            exit 64
            error: the model has no input `imgae`
            hint: did you mean `image`?
            hint: the inputs are `image`

            exit 64
            error: the model has no input `x`
            hint: the inputs are `image`

            exit 64
            error: the model has no input `x`
            hint: the inputs are `image`

            exit 64
            error: found input `image` twice
            ");
        }
    }
}

#[test]
fn values_that_do_not_fit_are_reported() {
    let server = Server::shared("dummy");
    let folder = repository::folder();
    let path = |name: &str| folder.path().join(name);
    for (name, text) in [
        ("broken.json", "[0, 1"),
        ("two.json", r#"{"input1": 0, "input2": 1}"#),
        ("words.txt", "one two"),
        ("text.npy", "no array"),
        ("text.npz", "no archive"),
        ("text.png", "no picture"),
        ("short.bin", "9 bytes: "),
    ] {
        fs::write(path(name), text).unwrap();
    }
    let doubles: Bytes = vec![0; 80].into();
    let doubles = Tensor::new(DataType::F64, vec![1, 10], doubles).unwrap();
    write_npy(&path("doubles.npy"), &doubles);
    let one = tensor(&[1], &[1.0]);
    write_npz(&path("two.npz"), &[("input1", &one), ("input2", &one)]);
    let with = |name: &str, file: &str| format!("{name}@{}", path(file).display());
    let texts = failures(
        server,
        GRPC,
        &[
            &["dummy", "-i=b=[1, 2"],
            &["dummy", "-i=b=star.png"],
            &["dummy", "-i=b=[1, [2]]"],
            &["dummy", "-i=b=[0,1,2,3,4,5,6,7,8,\"nine\"]"],
            &["dummy", "-i=b=[0,1,2,3,4,5,6,7,8,null]"],
            &["dummy", "-i=b=1"],
            &["dummy", "-i=b=[[1,2,3]]"],
            &["dummy", "-i="],
            &["dummy", "-i", &with("", "broken.json")],
            &["dummy", "-i", &with("", "two.json")],
            &["dummy", "-i", &with("", "words.txt")],
            &["dummy", "-i", &with("", "doubles.npy")],
            &["dummy", "-i", &with("", "text.npy")],
            &["dummy", "-i", &with("", "text.npz")],
            &["dummy", "-i", &with("", "two.npz")],
            &["dummy", "-i", &with("b=", "two.npz")],
            &["dummy", "-i", &with("", "text.png")],
            &["dummy", "-i", &with("", "short.bin")],
            &["dummy", "-i", &with("", "missing.npy")],
            &["dummy", "-i=@image.gif"],
            &["dummy", "-i=@"],
        ],
    );
    let folder = folder.path().to_str().unwrap();
    insta::assert_snapshot!(texts.replace(folder, "<folder>"), @r#"
    exit 64
    error: cannot use the value given for input `b`
      caused by: EOF while parsing a list at line 1 column 5
    hint: a value is JSON, such as `-i b='[1, 2.5]'`, or a file: `-i b=@FILE`

    exit 64
    error: cannot use the value given for input `b`
      caused by: expected value at line 1 column 1
    hint: a value is JSON, such as `-i b='[1, 2.5]'`, or a file: `-i b=@FILE`

    exit 64
    error: cannot use the value given for input `b`
      caused by: found a list beside a value at line 1 column 5

    exit 64
    error: cannot use the value given for input `b`
      caused by: found "nine", expected a value of FP32 at line 1 column 25

    exit 64
    error: cannot use the value given for input `b`
      caused by: invalid type: null, expected a list or a value of FP32 at line 1 column 23

    exit 64
    error: cannot use the value given for input `b`
      caused by: found 1 element, shape (1,10) takes 10

    exit 1
    error: the server refused the request: INVALID_ARGUMENT: Invalid input shape - Expected: (1,10); Actual: (1,3); input name: b

    exit 64
    error parsing options: invalid value '' for '--input <[NAME[:DTYPE[:SHAPE]]=]VALUE>': found nothing, expected `NAME=VALUE`

    For more information, try '--help'.

    exit 64
    error: cannot use the value given for input `b`
      caused by: EOF while parsing a list at line 1 column 5
    hint: a value is JSON, such as `-i b='[1, 2.5]'`, or a file: `-i b=@FILE`

    exit 64
    error: the model has no input `input1`
    hint: the inputs are `b`

    exit 64
    error: cannot use the value given for input `b`
      caused by: found `one`, expected a value of FP32

    exit 64
    error: cannot use the value given for input `b`
      caused by: found elements of FP64, expected FP32
    hint: `-i b:FP32=…` converts the array

    exit 1
    error: cannot read <folder>/text.npy
      caused by: found no `.npy` header at the start

    exit 1
    error: cannot read <folder>/text.npz
      caused by: found no readable archive
      caused by: invalid Zip archive: Could not find EOCD

    exit 64
    error: the model has no input `input1`
    hint: the inputs are `b`

    exit 64
    error: cannot use the value given for input `b`
      caused by: found the arrays input1, input2, none of the input's name

    exit 64
    error: cannot use the value given for input `b`
      caused by: cannot tell the layout of an image from shape (1,10)
    hint: `--layout` tells where the channels are

    exit 64
    error: cannot use the value given for input `b`
      caused by: found 9 bytes, which is no whole number of elements of FP32

    exit 1
    error: cannot read <folder>/missing.npy
      caused by: No such file or directory (os error 2)

    exit 64
    error parsing options: invalid value '@image.gif' for '--input <[NAME[:DTYPE[:SHAPE]]=]VALUE>': found the file `image.gif`, expected a name that ends in .npy, .npz, .png, .jpg, .jpeg, .json, .txt or .bin

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value '@' for '--input <[NAME[:DTYPE[:SHAPE]]=]VALUE>': found no file name after `@`

    For more information, try '--help'.
    "#);
}

#[test]
fn images_that_do_not_fit_are_reported() {
    let server = Server::shared("fullsize");
    let folder = repository::folder();
    let text = folder.path().join("text.png");
    fs::write(&text, "no picture").unwrap();
    let text = format!("@{}", text.display());
    let star = format!("@{}", fixture("images/star.png").display());
    insta::assert_snapshot!(failures(server, GRPC, &[
        &["fullsize", "-i", &text],
        &["fullsize", "-i", &star, "--layout=NHWC"],
        &["fullsize", "-i", &star, "--layout=HCW"],
        &["fullsize", "-i", &star, "--mean=1,2"],
        &["fullsize", "-i", &star, "--scale=0"],
        &["fullsize", "-i", &star, "--mean=grey"],
    ]), @"
    exit 1
    error: cannot use the value given for input `image`
      caused by: found an image that cannot be decoded
      caused by: The image format could not be determined

    exit 64
    error: cannot use the value given for input `image`
      caused by: layout NHWC finds 224 channels in shape (1,3,224,224), expected 1 or 3
    hint: `--layout` tells where the channels are

    exit 64
    error parsing options: invalid value 'HCW' for '--layout <LAYOUT>': found `HCW`, expected NCHW, NHWC, CHW or HWC

    For more information, try '--help'.

    exit 64
    error: cannot use the value given for input `image`
      caused by: found 2 values of mean for 3 channels

    exit 64
    error: cannot use the value given for input `image`
      caused by: found 0 as a scale, expected a number to divide by

    exit 64
    error parsing options: invalid value 'grey' for '--mean <A,B,C>': invalid float literal

    For more information, try '--help'.
    ");
}
