//! The tables of the Firefox Profiler's processed format, version 55, as far as they are filled.

use serde::Serialize;
use serde_json::{Value, json};

/// The version of the format.
pub(super) const VERSION: u32 = 55;

/// Places of categories.
pub(super) const OTHER: usize = 0;
pub(super) const USER: usize = 1;
pub(super) const KERNEL: usize = 2;

/// A profile.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Profile {
    pub(super) meta: Value,
    pub(super) libs: Vec<Lib>,
    pub(super) threads: Vec<Thread>,
    pub(super) pages: [u8; 0],
    pub(super) profiler_overhead: [u8; 0],
    pub(super) counters: [u8; 0],
}

/// What the profile says of itself.
pub(super) fn meta(start: f64, interval: f64, visible: usize, host: Option<&str>) -> Value {
    let category = |name: &str, color: &str| {
        let subcategories = ["Other"];
        json!({ "name": name, "color": color, "subcategories": subcategories })
    };
    json!({
        "categories": [
            category("Other", "grey"),
            category("User", "yellow"),
            category("Kernel", "orange"),
        ],
        "debug": false,
        "extensions": { "length": 0, "baseURL": [], "id": [], "name": [] },
        "interval": interval,
        "preprocessedProfileVersion": VERSION,
        "processType": 0,
        "product": host.map_or_else(|| "vcpi".to_owned(), |host| format!("vcpi on {host}")),
        "oscpu": "Linux",
        "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "\u{b5}s" },
        "startTime": start,
        "symbolicated": true,
        "pausedRanges": [],
        // Readers look at the other version alone.
        "version": 24,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "markerSchema": [],
        "initialVisibleThreads": (0..visible).collect::<Vec<_>>(),
        "initialSelectedThreads": [0],
    })
}

/// An image.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lib {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) debug_name: String,
    pub(super) debug_path: String,
    pub(super) breakpad_id: String,
    pub(super) code_id: Option<String>,
    pub(super) arch: &'static str,
}

/// A process: all its threads are one here.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thread {
    pub(super) frame_table: FrameTable,
    pub(super) func_table: FuncTable,
    pub(super) markers: Markers,
    pub(super) name: String,
    pub(super) is_main_thread: bool,
    pub(super) native_symbols: NativeSymbols,
    pub(super) paused_ranges: [u8; 0],
    pub(super) pid: String,
    pub(super) process_name: String,
    pub(super) process_shutdown_time: Option<f64>,
    pub(super) process_startup_time: f64,
    pub(super) process_type: &'static str,
    pub(super) register_time: f64,
    pub(super) resource_table: ResourceTable,
    pub(super) samples: Samples,
    pub(super) stack_table: StackTable,
    pub(super) string_array: Vec<String>,
    pub(super) tid: String,
    pub(super) unregister_time: Option<f64>,
    pub(super) show_markers_in_timeline: bool,
}

/// Functions at instructions.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FrameTable {
    pub(super) length: usize,
    /// In the image; -1 where the format has no room for it.
    pub(super) address: Vec<i64>,
    pub(super) inline_depth: Vec<u32>,
    pub(super) category: Vec<usize>,
    pub(super) subcategory: Vec<usize>,
    pub(super) func: Vec<usize>,
    pub(super) native_symbol: Vec<Option<usize>>,
    #[serde(rename = "innerWindowID")]
    pub(super) inner_window_id: Vec<u32>,
    pub(super) line: Vec<Option<u32>>,
    pub(super) column: Vec<Option<u32>>,
}

/// Functions.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FuncTable {
    pub(super) length: usize,
    pub(super) name: Vec<usize>,
    #[serde(rename = "isJS")]
    pub(super) is_js: Vec<bool>,
    #[serde(rename = "relevantForJS")]
    pub(super) relevant_for_js: Vec<bool>,
    /// -1 for none.
    pub(super) resource: Vec<i64>,
    pub(super) file_name: Vec<Option<usize>>,
    pub(super) line_number: Vec<Option<u32>>,
    pub(super) column_number: Vec<Option<u32>>,
}

/// Images, as functions refer to them.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceTable {
    pub(super) length: usize,
    pub(super) lib: Vec<usize>,
    pub(super) name: Vec<usize>,
    pub(super) host: Vec<Option<usize>>,
    pub(super) r#type: Vec<u32>,
}

/// Stacks: a frame and what is around it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StackTable {
    pub(super) length: usize,
    pub(super) prefix: Vec<Option<usize>>,
    pub(super) frame: Vec<usize>,
}

/// Interrupts.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Samples {
    pub(super) length: usize,
    pub(super) weight_type: &'static str,
    pub(super) stack: Vec<Option<usize>>,
    pub(super) time_deltas: Vec<f64>,
    pub(super) weight: Vec<u64>,
}

/// Symbols of images: names are those of functions, and there is none.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NativeSymbols {
    length: usize,
    address: [u8; 0],
    function_size: [u8; 0],
    lib_index: [u8; 0],
    name: [u8; 0],
}

/// Events in time: there is none.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Markers {
    length: usize,
    category: [u8; 0],
    data: [u8; 0],
    end_time: [u8; 0],
    name: [u8; 0],
    phase: [u8; 0],
    start_time: [u8; 0],
}
