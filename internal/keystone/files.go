package keystone

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
)

// Files is one state of a KeystoneConfiguration and of the files that it names.
type Files struct {
	Configuration *configv1alpha1.KeystoneConfiguration
	// path is that of the configuration.
	path string
	// authorities, account and secure are the contents of the files that it names.
	authorities, account, secure []byte
	// content is that of the configuration.
	content []byte
}

// ReadFiles reads a KeystoneConfiguration and the files that it names. Of these, the
// secure.yaml beside the clouds file need not exist.
func ReadFiles(path string) (*Files, error) {
	// Before it is parsed: what changes meanwhile is read again.
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of Keystone: %w", err)
	}
	c, err := configv1alpha1.LoadKeystoneConfiguration(path)
	if err != nil {
		return nil, err
	}
	f := &Files{Configuration: c, path: path, content: content}
	if err := f.readNamed(); err != nil {
		return nil, fmt.Errorf("the configuration of Keystone %q: %w", path, err)
	}
	return f, nil
}

func (f *Files) readNamed() (err error) {
	c := f.Configuration
	if c.CertificateAuthorityFile != "" {
		if f.authorities, err = os.ReadFile(c.CertificateAuthorityFile); err != nil {
			return fmt.Errorf("certificateAuthorityFile: %w", err)
		}
	}
	if f.account, err = os.ReadFile(c.CloudsFile); err != nil {
		return fmt.Errorf("cloudsFile: %w", err)
	}
	if f.secure, err = os.ReadFile(filepath.Join(filepath.Dir(c.CloudsFile), "secure.yaml")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cloudsFile: %w", err)
	}
	return nil
}

// Equal reports whether all files are as they were.
func (f *Files) Equal(before *Files) bool {
	return before != nil && slices.EqualFunc(f.contents(), before.contents(), bytes.Equal)
}

func (f *Files) contents() [][]byte { return [][]byte{f.content, f.authorities, f.account, f.secure} }

// Client returns a client that waits for an answer as long as timeout.
func (f *Files) Client(timeout time.Duration) (*Client, error) {
	client, err := New(Config{
		URL: f.Configuration.URL, CA: f.authorities, Clouds: f.account, Secure: f.secure, Cloud: f.Configuration.Cloud, Timeout: timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("the configuration of Keystone %q: %w", f.path, err)
	}
	return client, nil
}
