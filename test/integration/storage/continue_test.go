package storage

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var _ = Describe("Continue tokens", Ordered, func() {
	const namespace = "paged"
	tokens := map[tenant.Name]string{}
	everywhere := append([]tenant.Name{suite.All}, spaces...)

	BeforeAll(func(ctx SpecContext) {
		for _, n := range spaces {
			client := tenantry.Client(n)
			ensureNamespace(ctx, client, namespace)
			for _, name := range []string{"one", "two", "three"} {
				_, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
			}
		}
		for _, n := range everywhere {
			list, err := tenantry.Client(n).CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{Limit: 1})
			Expect(err).NotTo(HaveOccurred())
			Expect(list.Continue).NotTo(BeEmpty())
			tokens[n] = list.Continue
		}
	}, NodeTimeout(timeout))

	It("are refused in any other space", func(ctx SpecContext) {
		for _, of := range everywhere {
			for _, in := range everywhere {
				list, err := tenantry.Client(in).CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{Limit: 1, Continue: tokens[of]})
				if of == in {
					Expect(err).NotTo(HaveOccurred())
					Expect(list.Items).To(HaveLen(1))
					continue
				}
				Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "token of %s in %s: %v, %v", of, in, list, err)
			}
		}
	}, SpecTimeout(timeout))

	It("lead nowhere else when they are forged", func(ctx SpecContext) {
		client := tenantry.Client("foo")
		forge := func(start string, version int64) string {
			token, err := json.Marshal(map[string]any{"v": "meta.k8s.io/v1", "rv": version, "start": start})
			Expect(err).NotTo(HaveOccurred())
			return "foo." + base64.RawURLEncoding.EncodeToString(token)
		}
		original, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(tokens["foo"], "foo."))
		Expect(err).NotTo(HaveOccurred())
		var plain struct {
			Version int64 `json:"rv"`
		}
		Expect(json.Unmarshal(original, &plain)).To(Succeed())
		for _, version := range []int64{plain.Version, -1} {
			for _, start := range []string{
				"", "/", "..", "../foobar", "../../foobar/paged/one", "/../../foobar/", "\x00", "a\x00", "zzzz", "one\x00",
				"foobar/paged/one", "~", "\xff", "/registry/configmaps/foobar/paged/one",
			} {
				for _, namespace := range []string{namespace, ""} {
					list, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{Limit: 500, Continue: forge(start, version)})
					if err != nil {
						continue
					}
					for _, item := range list.Items {
						Expect(item.Annotations[tenant.Annotation]).To(Equal("foo"), "start %q", start)
					}
				}
			}
		}
		for _, token := range []string{"foo.", "foo.!", "foo.e30", ".", "..", "foo.foo." + tokens["foo"], "foobar.", strings.ToUpper(tokens["foo"])} {
			_, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{Limit: 1, Continue: token})
			Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%q: %v", token, err)
		}
	}, SpecTimeout(timeout))
})
