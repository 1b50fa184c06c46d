import Foundation
import SyncCore

/// JSON as the program reads and prints it; the strict reader and the canonical writer are SyncCore's.
enum JSONText {
    /// The value of a JSON text; `nil` if it is none.
    static func value(_ text: String) -> FieldValue? {
        do { return try FieldValue(json: text) } catch { return nil }
    }

    /// The value of a JSON file.
    /// - Throws: a ``Problem`` for a file that is not there, cannot be read, or is no JSON.
    static func value(ofFile path: String) throws(Problem) -> FieldValue {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            throw Problem("There is no file “\(path)”.")
        }
        guard !isFolder.boolValue else { throw Problem("“\(path)” is a folder, not a file.") }
        guard let content = FileManager.default.contents(atPath: path) else {
            throw Problem("The file “\(path)” cannot be read.")
        }
        // Some editors put a mark of the encoding in front.
        let mark: [UInt8] = [0xef, 0xbb, 0xbf]
        let bytes = content.starts(with: mark) ? [UInt8](content.dropFirst(3)) : [UInt8](content)
        do {
            return try FieldValue(json: bytes, maximumDepth: 512)
        } catch {
            throw Problem("The file “\(path)” is not JSON: \(error).")
        }
    }

    /// The canonical text of a value: no spaces, keys in the order of their bytes, the same on every device.
    static func text(_ value: FieldValue) -> String {
        do { return try value.jsonText() } catch { preconditionFailure("what was read is finite: \(error)") }
    }
}
