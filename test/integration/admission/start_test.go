package admission

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/test/env"
	"github.com/tenantry/tenantry/test/env/suite"
)

var _ = Describe("A start with much to read", func() {
	It("is ready when admission has read what it decides by, and not earlier", func(ctx SpecContext) {
		released, started := make(chan struct{}), make(chan *env.Environment, 1)
		failed := make(chan error, 1)
		ports := make(chan int, 1)
		go func() {
			e, err := env.Start(ctx, func(o *standalone.Options) {
				o.WrapStorage = delayed(released, "limitranges")
				ports <- o.Port
			})
			if err != nil {
				failed <- err
				return
			}
			started <- e
		}()
		readyz := fmt.Sprintf("https://127.0.0.1:%d/readyz", <-ports)
		Eventually(func() (string, error) { return read(readyz) }).Should(And(
			ContainSubstring("[-]admission/LimitRanger failed"),
			ContainSubstring("[+]admission/NamespaceLifecycle ok"),
			ContainSubstring("[+]poststarthook/space-views ok"),
		))
		Expect(started).NotTo(Receive())
		close(released)
		var slow *env.Environment
		Eventually(started).Should(Receive(&slow))
		DeferCleanup(slow.Stop)
		Expect(failed).NotTo(Receive())
		Expect(read(readyz)).To(Equal("ok"))
	}, SpecTimeout(suite.StartTimeout))
})

// read returns the answer to whoever asks.
func read(url string) (string, error) {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // nothing is told to the server
		DisableKeepAlives: true,
	}}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// delayed makes a storage of a resource that answers no list until it is released.
func delayed(released <-chan struct{}, resource string) func(storage.RawFunc) storage.RawFunc {
	return func(raw storage.RawFunc) storage.RawFunc {
		return func(c storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, prefix string) (upstream.Interface, factory.DestroyFunc, error) {
			made, destroy, err := raw(c, newFunc, newListFunc, prefix)
			if c.GroupResource.String() == resource {
				made = slowStorage{made, released}
			}
			return made, destroy, err
		}
	}
}

type slowStorage struct {
	upstream.Interface
	released <-chan struct{}
}

func (s slowStorage) GetList(ctx context.Context, key string, opts upstream.ListOptions, list runtime.Object) error {
	select {
	case <-s.released:
		return s.Interface.GetList(ctx, key, opts, list)
	case <-ctx.Done():
		return ctx.Err()
	}
}
