package userfile

import (
	"bytes"
	"errors"
	"fmt"

	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/server/authentication/watchedfile"
)

// open reads a file of users for the first time. what names it in messages and metrics:
// "token", "basic-auth". When it changes, its last line must end: of one that is cut, whose user it is may be missing.
func open[T any](what, path string, parse func([]byte) (T, error)) (*watchedfile.File[T], error) {
	changes := false
	file, err := watchedfile.Open(path, func(content []byte) (T, error) {
		parsed, err := parse(content)
		if err == nil && changes && len(content) > 0 && !bytes.HasSuffix(content, []byte("\n")) {
			err = errors.New("the last line has no newline, so some of it may be missing: end it by one")
		}
		if err != nil {
			err = fmt.Errorf("%s file %q, %w", what, path, err)
		}
		return parsed, err
	}, func(err error) {
		if err != nil {
			reloadsTotal.WithLabelValues(what, "failure").Inc()
			klog.ErrorS(err, "File of users not read again, its last valid content stays in force", "file", path)
			return
		}
		reloadsTotal.WithLabelValues(what, "success").Inc()
		klog.InfoS("File of users read again", "file", path)
	})
	changes = true
	return file, err
}
