// Streams the frames of a file through a network from Rust, by its interface in C.
//
//   stream NETWORK.safetensors FRAMES [STEPS]
//
// FRAMES holds float32 values [frames, input_size]. They are taken over and over, for STEPS
// steps, or once. What the network answers to each, the first time, is printed, a line for each.
//
// docs/runtime.md has the command that builds it.
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::process::exit;
use std::ptr;

// As rnn_runtime.h has them.
#[repr(C)]
struct RnnError {
    message: [c_char; 512],
}

#[repr(C)]
#[derive(Default)]
struct RnnConfig {
    struct_size: u32,
    mode: i32,
    element_type: i32,
    bidirectional: i32,
    skip_input: i32,
    int8_weights: i32,
    num_layers: i64,
    num_units: i64,
    input_size: i64,
    num_proj: i64,
}

const FLOAT32: i32 = 0;

#[link(name = "rnn_runtime")]
extern "C" {
    fn rnn_network_load(
        path: *const c_char,
        num_threads: i32,
        network: *mut *mut c_void,
        error: *mut RnnError,
    ) -> c_int;
    fn rnn_network_config(
        network: *const c_void,
        config: *mut RnnConfig,
        error: *mut RnnError,
    ) -> c_int;
    fn rnn_network_free(network: *mut c_void);
    fn rnn_stream_create(
        network: *const c_void,
        batch: i64,
        stream: *mut *mut c_void,
        error: *mut RnnError,
    ) -> c_int;
    fn rnn_stream_step(
        stream: *mut c_void,
        x: *const c_void,
        y: *mut c_void,
        error: *mut RnnError,
    ) -> c_int;
    fn rnn_stream_free(stream: *mut c_void);
}

// Calls a function that gets room for a message; its text is the error.
fn checked(call: impl FnOnce(*mut RnnError) -> c_int) -> Result<(), String> {
    let mut error = RnnError { message: [0; 512] };
    match call(&mut error) {
        0 => Ok(()),
        _ => Err(unsafe { CStr::from_ptr(error.message.as_ptr()) }
            .to_string_lossy()
            .into_owned()),
    }
}

// A float32 network, and one sequence of it.
struct Stream {
    network: *mut c_void,
    stream: *mut c_void,
    config: RnnConfig,
}

impl Stream {
    fn open(path: &str) -> Result<Stream, String> {
        let path = CString::new(path).map_err(|error| error.to_string())?;
        let mut it = Stream {
            network: ptr::null_mut(),
            stream: ptr::null_mut(),
            config: RnnConfig {
                struct_size: std::mem::size_of::<RnnConfig>() as u32,
                ..Default::default()
            },
        };
        unsafe {
            checked(|e| rnn_network_load(path.as_ptr(), 1, &mut it.network, e))?;
            checked(|e| rnn_network_config(it.network, &mut it.config, e))?;
            if it.config.element_type != FLOAT32 {
                return Err("This program streams a float32 network.".into());
            }
            checked(|e| rnn_stream_create(it.network, 1, &mut it.stream, e))?;
        }
        Ok(it)
    }

    // From x [I] to y [P].
    fn step(&mut self, x: &[f32]) -> Result<Vec<f32>, String> {
        let outputs = match self.config.num_proj {
            0 => self.config.num_units,
            projected => projected,
        };
        assert_eq!(x.len() as i64, self.config.input_size);
        let mut y = vec![0.0; outputs as usize];
        checked(|e| unsafe {
            rnn_stream_step(self.stream, x.as_ptr().cast(), y.as_mut_ptr().cast(), e)
        })?;
        Ok(y)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        unsafe {
            rnn_stream_free(self.stream);
            rnn_network_free(self.network);
        }
    }
}

// The frames of a file, of `size` values each.
fn read_frames(path: &str, size: usize) -> Result<Vec<Vec<f32>>, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    let frame_bytes = size * std::mem::size_of::<f32>();
    if bytes.is_empty() || bytes.len() % frame_bytes != 0 {
        return Err(format!(
            "{path} must hold frames of {frame_bytes} bytes, {size} float32 values each; it \
             holds {} bytes",
            bytes.len()
        ));
    }
    let value = |four: &[u8]| f32::from_ne_bytes([four[0], four[1], four[2], four[3]]);
    let frames = bytes.chunks_exact(frame_bytes);
    Ok(frames
        .map(|frame| frame.chunks_exact(4).map(value).collect())
        .collect())
}

fn run(path: &str, frames_path: &str, steps: Option<usize>) -> Result<(), String> {
    let mut stream = Stream::open(path)?;
    let frames = read_frames(frames_path, stream.config.input_size as usize)?;
    for step in 0..steps.unwrap_or(frames.len()) {
        let y = stream.step(&frames[step % frames.len()])?;
        if step < frames.len() {
            let values: Vec<String> = y.iter().map(f32::to_string).collect();
            println!("{}", values.join(" "));
        }
    }
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, path, frames, rest @ ..] = &arguments[..] else {
        eprintln!("usage: {} NETWORK.safetensors FRAMES [STEPS]", arguments[0]);
        exit(2);
    };
    let steps = rest.first().map(|text| text.parse());
    let result = match steps.transpose() {
        Ok(steps) => run(path, frames, steps),
        Err(_) => Err(format!("STEPS must be a number, got {}", rest[0])),
    };
    if let Err(message) = result {
        eprintln!("{message}");
        exit(1);
    }
}
