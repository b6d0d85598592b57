package controllers

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// collected is how long a test waits for the collector to learn of a definition.
const collected = time.Minute

var _ = Describe("The garbage collector", func() {
	// In a, gears belong to namespaces; in b, to the cluster, by another plural.
	gears := map[tenant.Name]struct {
		resource schema.GroupVersionResource
		scope    apiextensionsv1.ResourceScope
	}{
		"a": {schema.GroupVersionResource{Group: "garbage.test", Version: "v1", Resource: "gears"}, apiextensionsv1.NamespaceScoped},
		"b": {schema.GroupVersionResource{Group: "garbage.test", Version: "v1", Resource: "gearz"}, apiextensionsv1.ClusterScoped},
	}
	gearsIn := func(n tenant.Name) dynamic.ResourceInterface {
		all := suite.Dynamic(configIn(n)).Resource(gears[n].resource)
		if gears[n].scope == apiextensionsv1.ClusterScoped {
			return all
		}
		return all.Namespace("default")
	}
	create := func(ctx context.Context, n tenant.Name, name string, owners ...metav1.OwnerReference) metav1.OwnerReference {
		gear := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "garbage.test/v1", "kind": "Gear"}}
		gear.SetName(name)
		gear.SetOwnerReferences(owners)
		var created *unstructured.Unstructured
		Eventually(func() (err error) {
			created, err = gearsIn(n).Create(ctx, gear, metav1.CreateOptions{})
			return err
		}).WithContext(ctx).Should(Succeed())
		return metav1.OwnerReference{APIVersion: "garbage.test/v1", Kind: "Gear", Name: name, UID: created.GetUID(), BlockOwnerDeletion: ptr.To(true)}
	}
	dependent := func(ctx context.Context, n tenant.Name, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
		made, err := client(n).CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		return made
	}
	isGone := func(ctx context.Context, n tenant.Name, name string) func() bool {
		return func() bool {
			_, err := client(n).CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}
	}

	BeforeEach(func(ctx SpecContext) {
		for n, defined := range gears {
			definition := suite.NewDefinition(defined.resource, "Gear", defined.scope)
			_, err := suite.Definitions(configIn(n)).Create(ctx, definition, metav1.CreateOptions{})
			if !apierrors.IsAlreadyExists(err) {
				Expect(err).NotTo(HaveOccurred())
			}
		}
	})

	It("follows the custom resources of every space, each in its own way", func(ctx SpecContext) {
		for n := range gears {
			By("background deletion in " + n.String())
			owner := create(ctx, n, "owner")
			dependent(ctx, n, "of-owner", owner)
			dependent(ctx, n, "of-nobody")
			chain := create(ctx, n, "chain", owner)
			dependent(ctx, n, "of-chain", chain)
			mixed := dependent(ctx, n, "mixed")
			create(ctx, n, "of-mixed", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "mixed", UID: mixed.UID})
		}
		for _, n := range []tenant.Name{"a", "b"} {
			Expect(gearsIn(n).Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})).To(Succeed())
			for _, name := range []string{"of-owner", "of-chain"} {
				Eventually(isGone(ctx, n, name)).WithContext(ctx).WithTimeout(collected).Should(BeTrue(), "%s in %s", name, n)
			}
			if gears[n].scope == apiextensionsv1.NamespaceScoped { // a cluster-scoped object has no namespaced owner
				Expect(client(n).CoreV1().ConfigMaps("default").Delete(ctx, "mixed", metav1.DeleteOptions{})).To(Succeed())
				Eventually(func() bool {
					_, err := gearsIn(n).Get(ctx, "of-mixed", metav1.GetOptions{})
					return apierrors.IsNotFound(err)
				}).WithContext(ctx).WithTimeout(collected).Should(BeTrue())
			}
			Expect(isGone(ctx, n, "of-nobody")()).To(BeFalse())
			if n == "a" { // the same names in b are untouched
				Expect(isGone(ctx, "b", "of-owner")()).To(BeFalse())
				Expect(isGone(ctx, "b", "of-chain")()).To(BeFalse())
			}
		}
	}, SpecTimeout(3*time.Minute))

	It("deletes in the foreground, and lets orphans live", func(ctx SpecContext) {
		for n := range gears {
			foreground, orphan := create(ctx, n, "foreground"), create(ctx, n, "orphan")
			dependent(ctx, n, "of-foreground", foreground)
			dependent(ctx, n, "of-orphan", orphan)
			dependent(ctx, n, "of-both", foreground, orphan)
			// Who deletes an owner before the collector knows its dependents makes no
			// orphans of them. What comes last and has no owner goes when it knows all.
			dependent(ctx, n, "last", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "nobody", UID: "nobody"})
			Eventually(isGone(ctx, n, "last")).WithContext(ctx).WithTimeout(collected).Should(BeTrue())
		}
		for n := range gears {
			Expect(gearsIn(n).Delete(ctx, "foreground", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})).To(Succeed())
			Expect(gearsIn(n).Delete(ctx, "orphan", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)})).To(Succeed())
			for _, name := range []string{"foreground", "orphan"} {
				Eventually(func() bool {
					_, err := gearsIn(n).Get(ctx, name, metav1.GetOptions{})
					return apierrors.IsNotFound(err)
				}).WithContext(ctx).WithTimeout(collected).Should(BeTrue(), "%s in %s", name, n)
			}
			Eventually(isGone(ctx, n, "of-foreground")).WithContext(ctx).WithTimeout(collected).Should(BeTrue())
			alone, err := client(n).CoreV1().ConfigMaps("default").Get(ctx, "of-orphan", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(alone.OwnerReferences).To(BeEmpty())
		}
	}, SpecTimeout(3*time.Minute))

	It("reports owners that cannot be by the kinds of the space", func(ctx SpecContext) {
		owner := dependent(ctx, "b", "namespaced")
		reference := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}
		dependent(ctx, "b", "of-namespaced", reference) // so that the collector knows the owner
		attempts := 0
		Eventually(func(g Gomega) {
			attempts++
			create(ctx, "b", fmt.Sprintf("misplaced-%d", attempts), reference)
			events, err := client("b").CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=OwnerRefInvalidNamespace"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(events.Items).NotTo(BeEmpty())
			reported := events.Items[0]
			g.Expect(reported.InvolvedObject.Kind).To(Equal("Gear"))
			g.Expect(reported.InvolvedObject.Name).To(HavePrefix("misplaced-"))
			g.Expect(reported.Message).To(ContainSubstring("name: namespaced, uid: " + string(owner.UID)))
		}).WithContext(ctx).WithTimeout(collected).WithPolling(time.Second).Should(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("does not take the custom resource of another space for an owner", func(ctx SpecContext) {
		foreign := create(ctx, "b", "foreign")
		own := create(ctx, "a", "own")
		dependent(ctx, "a", "claimed", foreign, own)
		Expect(gearsIn("b").Delete(ctx, "foreign", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})).To(Succeed())
		Eventually(func() bool {
			_, err := gearsIn("b").Get(ctx, "foreign", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}).WithContext(ctx).WithTimeout(collected).Should(BeTrue())
		Eventually(func(g Gomega) {
			claimed, err := client("a").CoreV1().ConfigMaps("default").Get(ctx, "claimed", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(claimed.OwnerReferences).To(ConsistOf(HaveField("UID", own.UID)), "the other owner is none")
		}).WithContext(ctx).WithTimeout(collected).Should(Succeed())
	}, SpecTimeout(3*time.Minute))
})
