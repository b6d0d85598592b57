// Package watchedfile reads a file again when it changes. What cannot be read or parsed leaves
// the last valid content in force. It knows nothing of what is in the file.
package watchedfile
