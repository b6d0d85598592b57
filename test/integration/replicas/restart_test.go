package replicas

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

// plaintext is what nobody may read in etcd.
const plaintext = "nobody reads this in etcd"

// encrypted are resources, built in and custom, each encrypted in another way.
var encrypted = []struct {
	resource schema.GroupVersionResource
	provider string
	// authenticated is true for what binds the ciphertext to its key in etcd.
	authenticated bool
}{
	{corev1.SchemeGroupVersion.WithResource("secrets"), "aesgcm", true},
	{corev1.SchemeGroupVersion.WithResource("configmaps"), "aescbc", false},
	{widgets, "secretbox", false},
}

var widgets = schema.GroupVersionResource{Group: "replicas.test", Version: "v1", Resource: "widgets"}

// configuration returns the content of --encryption-provider-config.
func configuration() []byte {
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	config := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
	for _, e := range encrypted {
		config += fmt.Sprintf("- resources: [%q]\n  providers:\n  - %s: {keys: [{name: k1, secret: %q}]}\n  - identity: {}\n",
			e.resource.GroupResource().String(), e.provider, key)
	}
	return []byte(config)
}

var _ = Describe("A populated store", Ordered, func() {
	const prefix = "/restarted"
	// What is called alike in the keys of etcd.
	spaces := []tenant.Name{tenant.System, "foo", "foobar", "a", "a-b"}
	namespaces := []string{"foo", "a", "default"}
	var (
		s          *server
		encryption string
	)
	start := func(ctx context.Context, flags ...string) {
		GinkgoHelper()
		s = startServer(append(flags, "--etcd-prefix="+prefix, "--controllers=false")...)
		s.ready(ctx)
	}
	restart := func(ctx context.Context, flags ...string) {
		GinkgoHelper()
		sessions.Kill(s.session)
		start(ctx, flags...)
	}

	BeforeAll(func(ctx SpecContext) {
		encryption = "--encryption-provider-config=" + writeFile(filepath.Join(GinkgoT().TempDir(), "encryption.yaml"), configuration())
		start(ctx)
		for _, n := range spaces[1:] {
			applyTenant(ctx, s, n)
		}
		for _, n := range spaces {
			define(ctx, s, n)
		}
		for _, n := range spaces {
			for _, namespace := range namespaces {
				ensureNamespace(ctx, s, n, namespace)
			}
			write(ctx, s, n, namespaces, "plain")
		}
	}, NodeTimeout(startTimeout))

	It("is there after a restart, every object in its space", func(ctx SpecContext) {
		before := inventory(ctx, s, spaces)
		stored := ours(ctx, prefix)
		Expect(stored).To(HaveLen(len(encrypted) * len(spaces) * len(namespaces)))
		restart(ctx)
		Expect(inventory(ctx, s, spaces)).To(Equal(before))
		Expect(ours(ctx, prefix)).To(Equal(stored))
	}, SpecTimeout(specTimeout))

	It("is there after a restart with encryption, and what is written from then on is encrypted", func(ctx SpecContext) {
		before := inventory(ctx, s, spaces)
		restart(ctx, encryption)
		Expect(inventory(ctx, s, spaces)).To(Equal(before))
		for _, n := range spaces {
			write(ctx, s, n, namespaces, "encrypted")
		}
		for _, e := range encrypted {
			for _, n := range spaces {
				for _, namespace := range namespaces {
					key := keyOf(prefix, e.resource, n, namespace, "encrypted")
					stored := etcd.stored(ctx, key)
					Expect(stored).To(HaveKey(key))
					Expect(string(stored[key])).To(HavePrefix("k8s:enc:%s:v1:k1:", e.provider), key)
					Expect(string(stored[key])).NotTo(Or(ContainSubstring(plaintext), ContainSubstring(base64.StdEncoding.EncodeToString([]byte(plaintext)))), key)
					plain := keyOf(prefix, e.resource, n, namespace, "plain")
					Expect(string(etcd.stored(ctx, plain)[plain])).NotTo(HavePrefix("k8s:enc:"))
				}
			}
		}
		all := inventory(ctx, s, spaces)
		restart(ctx, encryption)
		Expect(inventory(ctx, s, spaces)).To(Equal(all))
	}, SpecTimeout(specTimeout))

	It("is what the status of Tenants says after a restart, whatever was recorded before", func(ctx SpecContext) {
		sessions.Kill(s.session)
		for _, e := range encrypted { // as if the server had ended before it recorded that
			_, err := etcd.Delete(ctx, keyOf(prefix, e.resource, "foobar", "default", "encrypted"))
			Expect(err).NotTo(HaveOccurred())
		}
		start(ctx, encryption, recording)
		for _, n := range spaces[1:] {
			Eventually(func(g Gomega) {
				objects, bytes, overhead := storedBy(ctx, prefix, n)
				told, toldBytes := usageOf(ctx, s, n)
				g.Expect(told).To(Equal(objects))
				g.Expect(toldBytes).To(And(BeNumerically("<", bytes), BeNumerically(">", bytes-overhead)))
			}).WithTimeout(startTimeout).Should(Succeed(), "of %s", n)
		}
	}, SpecTimeout(specTimeout))

	It("gives nothing to a space to whose keys ciphertext of another is copied", func(ctx SpecContext) {
		for _, e := range encrypted {
			key := keyOf(prefix, e.resource, "foo", "default", "encrypted")
			stored := string(etcd.stored(ctx, key)[key])
			for _, n := range []tenant.Name{"foobar", tenant.System} {
				copied := keyOf(prefix, e.resource, n, "default", "copied")
				_, err := etcd.Put(ctx, copied, stored)
				Expect(err).NotTo(HaveOccurred())
				_, err = s.dynamicAdmin(n).Resource(e.resource).Namespace("default").Get(ctx, "copied", metav1.GetOptions{})
				if e.authenticated {
					Expect(err).To(MatchError(ContainSubstring("message authentication failed")), "%s in %s", e.resource, n)
				} else {
					Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%s in %s: %v", e.resource, n, err)
				}
				_, err = etcd.Delete(ctx, copied)
				Expect(err).NotTo(HaveOccurred())
			}
		}
	}, SpecTimeout(specTimeout))
})

func keyOf(prefix string, r schema.GroupVersionResource, n tenant.Name, namespace, name string) string {
	key := prefix + "/" + r.Resource
	if r == widgets {
		key = prefix + "/" + r.Group + "/" + r.Resource
	}
	if n != tenant.System {
		key += "/" + n.String()
	}
	return key + "/" + namespace + "/" + name
}

// ours returns what etcd holds of the objects that nothing but these tests writes.
func ours(ctx context.Context, prefix string) map[string][]byte {
	GinkgoHelper()
	stored := etcd.stored(ctx, prefix)
	maps.DeleteFunc(stored, func(key string, _ []byte) bool { return path.Base(key) != "plain" && path.Base(key) != "encrypted" })
	return stored
}

// write writes an object of each kind in each namespace of a space.
func write(ctx context.Context, s *server, n tenant.Name, namespaces []string, name string) {
	GinkgoHelper()
	admin := s.dynamicAdmin(n)
	for _, e := range encrypted {
		for _, namespace := range namespaces {
			object := &unstructured.Unstructured{Object: map[string]any{}}
			object.SetName(name)
			switch e.resource.Resource {
			case "secrets":
				object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
				object.Object["stringData"] = map[string]any{"in": n.String() + "/" + namespace, "text": plaintext}
			case "configmaps":
				object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
				object.Object["data"] = map[string]any{"in": n.String() + "/" + namespace, "text": plaintext}
			default:
				object.SetGroupVersionKind(e.resource.GroupVersion().WithKind("Widget"))
				object.Object["data"] = map[string]any{"in": n.String() + "/" + namespace, "text": plaintext}
			}
			client := admin.Resource(e.resource).Namespace(namespace)
			Eventually(func(ctx context.Context) error {
				_, err := client.Create(ctx, object, metav1.CreateOptions{})
				return err
			}).WithContext(ctx).WithTimeout(startTimeout).Should(Succeed(), "%s in %s", e.resource.Resource, n)
		}
	}
}

// inventory returns all objects of every kind in every space, by what lists of
// the spaces have, and checks that no list has an object of another space.
func inventory(ctx context.Context, s *server, spaces []tenant.Name) map[string]map[string]any {
	GinkgoHelper()
	found := map[string]map[string]any{}
	kinds := []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("namespaces"), apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")}
	for _, e := range encrypted {
		kinds = append(kinds, e.resource)
	}
	for _, n := range spaces {
		// A server learns the definitions of spaces while it serves already, and the
		// first request for widgets makes their cache. Asked for a page, the server
		// does not send the client away until the cache is ready.
		Eventually(func(ctx context.Context) error {
			_, err := s.dynamicAdmin(n).Resource(widgets).List(ctx, metav1.ListOptions{Limit: 1})
			return err
		}).WithContext(ctx).WithTimeout(startTimeout).Should(Succeed())
	}
	for _, n := range spaces {
		client := s.dynamicAdmin(n)
		for _, kind := range kinds {
			list, err := client.Resource(kind).List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred(), "%s in %s", kind.Resource, n)
			for _, item := range list.Items {
				owner := item.GetAnnotations()[tenant.Annotation]
				if n == tenant.System {
					Expect(owner).To(BeEmpty())
				} else {
					Expect(owner).To(Equal(n.String()))
				}
				if in, ok, _ := unstructured.NestedString(item.Object, "data", "in"); ok && kind.Resource != "secrets" {
					Expect(in).To(Equal(n.String() + "/" + item.GetNamespace()))
				}
				id := strings.Join([]string{n.String(), kind.Resource, item.GetNamespace(), item.GetName()}, " ")
				Expect(found).NotTo(HaveKey(id))
				if kind.Resource == "customresourcedefinitions" {
					unstructured.RemoveNestedField(item.Object, "status")
				}
				found[id] = map[string]any{"uid": string(item.GetUID()), "data": item.Object["data"]}
			}
		}
	}
	return found
}

func ensureNamespace(ctx context.Context, s *server, n tenant.Name, name string) {
	GinkgoHelper()
	if n == tenant.System && name == metav1.NamespaceDefault {
		return
	}
	namespaces := s.dynamicAdmin(n).Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	object.SetName(name)
	_, err := namespaces.Create(ctx, object, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// define makes widgets known in a space.
func define(ctx context.Context, s *server, n tenant.Name) {
	GinkgoHelper()
	preserve := true
	definition := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: widgets.GroupResource().String()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: widgets.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: widgets.Resource, Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: widgets.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}},
			}},
		},
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(definition)
	Expect(err).NotTo(HaveOccurred())
	_, err = s.dynamicAdmin(n).Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).
		Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}
