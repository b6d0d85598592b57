package storage

import (
	"bytes"
	"crypto/aes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
	aestransformer "k8s.io/apiserver/pkg/storage/value/encrypt/aes"
	"k8s.io/apiserver/pkg/storage/value/encrypt/secretbox"

	"github.com/tenantry/tenantry/internal/tenant"
)

func transformers(t *testing.T) map[string]value.Transformer {
	t.Helper()
	key := [32]byte([]byte("a key of thirty-two bytes, 32, 32"))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := aestransformer.NewGCMTransformer(block)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]value.Transformer{
		"aesgcm": gcm, "aescbc": aestransformer.NewCBCTransformer(block), "secretbox": secretbox.NewSecretboxTransformer(key),
	}
}

func TestEncryption(t *testing.T) {
	for name, transformer := range transformers(t) {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			b.transformer = transformer
			s := b.configMaps(t, true)
			for _, n := range spaces {
				s.create(t, n, "foo", "plain")
			}
			for _, n := range spaces {
				key := tableKey("configmaps", n, "foo", "plain")
				stored := b.value(t, key)
				if bytes.Contains(stored, []byte("plain")) || bytes.Contains(stored, []byte("ConfigMap")) {
					t.Errorf("%q is not encrypted: %q", key, stored)
				}
				found, _ := s.list(t, n.Scope(), "foo")
				if diff := cmp.Diff([]string{string(n) + ":foo/plain"}, found); diff != "" {
					t.Errorf("in %q:\n%s", n, diff)
				}
			}
		})
	}
}

// What is stored for one tenant is nothing in the space of another, wherever
// somebody with access to etcd copies it. Only aesgcm authenticates the etcd key.
// By the others it decrypts, and is left out for the tenant in it.
func TestCiphertextInAnotherSpace(t *testing.T) {
	const foreign, authenticated = tenant.Name("foobar"), "aesgcm"
	for name, transformer := range transformers(t) {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			b.transformer = transformer
			s := b.configMaps(t, false)
			s.create(t, "foo", "foo", "x")
			own := tableKey("configmaps", "foo", "foo", "x")
			stored := b.value(t, own)
			get := func(n tenant.Name) error {
				return s.Get(s.in(t, n.Scope(), "foo"), s.key("foo", "x"), storage.GetOptions{}, &corev1.ConfigMap{})
			}

			b.put(t, own, stored) // at its own key it stays readable
			if err := get("foo"); err != nil {
				t.Error(err)
			}
			for _, n := range []tenant.Name{foreign, tenant.System} {
				b.put(t, tableKey("configmaps", n, "foo", "x"), stored)
				switch err := get(n); {
				case err == nil:
					t.Errorf("%q reads the object of another tenant", n)
				case (name == authenticated) == storage.IsNotFound(err):
					t.Errorf("%q: %v", n, err)
				}
			}
			found, _, err := s.tryList(t, foreign.Scope(), "")
			if len(found) > 0 || (name == authenticated) != (err != nil) {
				t.Errorf("list: %q, %v", found, err)
			}
		})
	}
}

func (b *backend) value(t testing.TB, key string) []byte {
	t.Helper()
	response, err := b.server.Client().Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(response.Kvs) != 1 {
		t.Fatalf("%d objects at %q", len(response.Kvs), key)
	}
	return response.Kvs[0].Value
}

func (b *backend) put(t testing.TB, key string, stored []byte) {
	t.Helper()
	if _, err := b.server.Client().Put(t.Context(), key, string(stored)); err != nil {
		t.Fatal(fmt.Errorf("writing %q: %w", key, err))
	}
}
