//go:build keystone

package keystone

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// logs are what the server logs, and the errors that it answers.
var logs safeBuffer

// safeBuffer keeps what is written.
type safeBuffer struct {
	mu      sync.Mutex
	content bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.Write(p)
}

// secret is the form of tokens, and of all passwords that these tests make.
var secret = regexp.MustCompile(`gAAAAA[\w-]{20,}|pw-\d+-\d+-s3cret`)

// searchForSecrets fails if a text has a token or a password.
func searchForSecrets(texts map[string][]byte) {
	GinkgoHelper()
	for name, text := range texts {
		suspicious := bytes.Contains(text, []byte("gAAAAA")) || bytes.Contains(text, []byte("-s3cret")) // many times faster
		if suspicious && secret.Match(text) || bytes.Contains(text, []byte(ks.password)) {
			Fail("a token or a password is in " + name)
		}
	}
}

// files returns the files below a directory.
func files(dir string) map[string][]byte {
	GinkgoHelper()
	found := map[string][]byte{}
	Expect(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		found[path], err = os.ReadFile(path)
		return err
	})).To(Succeed())
	Expect(found).NotTo(BeEmpty())
	return found
}

// What a run leaves behind, while it still runs: its state has all objects and events.
var _ = AfterSuite(func(ctx SpecContext) {
	if tenantry == nil {
		return
	}
	left := files(stateDir)
	system := tenantry.Client(tenant.System).RESTClient()
	for _, path := range []string{
		"/metrics", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/allocs?debug=1",
		suite.All.Root() + "/api/v1/events", "/api/v1/events", "/apis/tenantry.io/v1alpha1/keystonesyncs",
	} {
		text, err := system.Get().RequestURI(path).DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred(), path)
		Expect(text).NotTo(BeEmpty(), path)
		left[path] = text
	}
	Expect(string(left["/metrics"])).To(ContainSubstring(`tenantry_keystone_lookups_total{result="valid"}`))
	searchForSecrets(left)
})

var _ = ReportAfterSuite("Secrets", func(Report) {
	klog.Flush()
	logs.mu.Lock()
	defer logs.mu.Unlock()
	searchForSecrets(map[string][]byte{"logs": logs.content.Bytes()})
})
