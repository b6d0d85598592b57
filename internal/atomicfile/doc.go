// Package atomicfile writes small files so that a reader, and a start after a
// crash, sees either the old content or the new one, never a part of it.
package atomicfile
