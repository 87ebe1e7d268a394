//! The elements of a tensor with its axes in another order.

/// Returns the elements of a tensor with other axes first: axis `i` of the result is axis
/// `axes[i]` of the source. `width` is the size of an element in bytes.
///
/// `data` has exactly the elements of `shape`, and `axes` names each of its axes once.
pub fn transpose(data: &[u8], shape: &[usize], axes: &[usize], width: usize) -> Vec<u8> {
    let mut target = Vec::with_capacity(data.len());
    if data.is_empty() {
        return target;
    }
    // The distance in bytes between neighbours along each axis of the source.
    let mut strides = vec![width; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    let mut outer: Vec<(usize, usize)> = axes
        .iter()
        .map(|&axis| (shape[axis], strides[axis]))
        .collect();
    // The last axes that stay together in both are copied as one piece.
    let mut piece = width;
    while let Some(&(length, stride)) = outer.last()
        && stride == piece
    {
        piece *= length;
        outer.pop();
    }
    copy(data, &outer, piece, &mut target);
    target
}

/// Copies the pieces that the axes lead to, the last axis fastest.
fn copy(data: &[u8], axes: &[(usize, usize)], piece: usize, target: &mut Vec<u8>) {
    match axes {
        [] => target.extend_from_slice(&data[..piece]),
        [(length, stride)] => {
            // The sizes that nearly all tensors have, so that a piece is one load and one store.
            match piece {
                1 => strided::<1>(data, *length, *stride, target),
                2 => strided::<2>(data, *length, *stride, target),
                4 => strided::<4>(data, *length, *stride, target),
                8 => strided::<8>(data, *length, *stride, target),
                _ => {
                    for index in 0..*length {
                        target.extend_from_slice(&data[index * stride..][..piece]);
                    }
                }
            }
        }
        [(length, stride), rest @ ..] => {
            for index in 0..*length {
                copy(&data[index * stride..], rest, piece, target);
            }
        }
    }
}

fn strided<const PIECE: usize>(data: &[u8], length: usize, stride: usize, target: &mut Vec<u8>) {
    for index in 0..length {
        if let Some(piece) = data[index * stride..].first_chunk::<PIECE>() {
            target.extend_from_slice(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::transpose;

    /// The plain way: where each element of the result comes from.
    fn expected(data: &[u8], shape: &[usize], axes: &[usize], width: usize) -> Vec<u8> {
        let length: usize = shape.iter().product();
        let result: Vec<usize> = axes.iter().map(|&axis| shape[axis]).collect();
        let mut target = Vec::new();
        for place in 0..length {
            let mut rest = place;
            let mut index = vec![0; shape.len()];
            for axis in (0..axes.len()).rev() {
                index[axes[axis]] = rest % result[axis];
                rest /= result[axis];
            }
            let source = index
                .iter()
                .zip(shape)
                .fold(0, |sum, (index, length)| sum * length + index);
            target.extend_from_slice(&data[source * width..][..width]);
        }
        target
    }

    #[test]
    fn elements_go_where_their_axes_go() {
        let shapes: [&[usize]; 5] = [&[2, 3, 4, 5], &[1, 3, 2, 2], &[4, 1], &[6], &[2, 0, 3]];
        for shape in shapes {
            let mut axes: Vec<usize> = (0..shape.len()).collect();
            for round in 0..24 {
                // Goes through different orders, all of them for up to three axes.
                let at = round % axes.len();
                axes.swap(0, at);
                for width in [1, 2, 3, 4, 8] {
                    let length = shape.iter().product::<usize>() * width;
                    let data: Vec<u8> = (0..=250).cycle().take(length).collect();
                    assert_eq!(
                        transpose(&data, shape, &axes, width),
                        expected(&data, shape, &axes, width),
                        "{shape:?} {axes:?} {width}"
                    );
                }
            }
        }
        assert_eq!(transpose(&[7; 4], &[], &[], 4), [7; 4], "a scalar");
    }
}
