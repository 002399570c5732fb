// Streams frames through a network from Rust, by its interface in C.
//
//   stream NETWORK.safetensors [STEPS]
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

fn run(path: &str, steps: i64) -> Result<(), String> {
    let mut stream = Stream::open(path)?;
    let mut y = Vec::new();
    for step in 0..steps {
        let x: Vec<f32> = (0..stream.config.input_size)
            .map(|i| (0.1 * (step + i) as f32).sin())
            .collect();
        y = stream.step(&x)?;
    }
    for value in y {
        println!("{value}");
    }
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let Some(path) = arguments.get(1) else {
        eprintln!("usage: {} NETWORK.safetensors [STEPS]", arguments[0]);
        exit(2);
    };
    let steps = arguments.get(2).map_or(Ok(10), |text| text.parse());
    let result = match steps {
        Ok(steps) => run(path, steps),
        Err(_) => Err(format!("STEPS must be a number, got {}", arguments[2])),
    };
    if let Err(message) = result {
        eprintln!("{message}");
        exit(1);
    }
}
