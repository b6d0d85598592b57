package published

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var _ = Describe("An object of a published definition that looks like a list", func() {
	const group = "items.example.com"
	beInvalid := And(MatchError(apierrors.IsInvalid, "invalid"), MatchError(ContainSubstring("items: Forbidden")))

	It("is refused, and ends no watch of another tenant", func(ctx SpecContext) {
		definition := suite.NewDefinition(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "parts"}, "Part", "Namespaced")
		definition.Annotations = isPublished
		_, err := suite.Definitions(tenantry.Config(tenant.System)).Create(ctx, definition, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(objects(tenant.System, crds, "").Delete(ctx, definition.Name, metav1.DeleteOptions{})).To(Succeed())
		}, NodeTimeout(specTimeout))

		createPart(ctx, tenants[2], part(group, "v1", "neighbour"))
		createPart(ctx, tenants[1], part(group, "v1", "plain"))
		neighbour := objects(tenants[2], parts(group, "v1"), "default")
		own := objects(tenants[1], parts(group, "v1"), "default")
		listed, err := neighbour.List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		watcher, err := neighbour.Watch(ctx, metav1.ListOptions{ResourceVersion: listed.GetResourceVersion()})
		Expect(err).NotTo(HaveOccurred())
		defer watcher.Stop()

		list := part(group, "v1", "list")
		list.Object["items"] = []any{"a"}
		second := func(_ *unstructured.Unstructured, err error) error { return err }
		Expect(second(own.Create(ctx, list, metav1.CreateOptions{}))).To(beInvalid)
		Expect(second(own.Apply(ctx, "list", list, metav1.ApplyOptions{FieldManager: "test"}))).To(beInvalid)
		for kind, patch := range map[types.PatchType]string{
			types.MergePatchType: `{"items": ["a"]}`, types.JSONPatchType: `[{"op": "add", "path": "/items", "value": ["a"]}]`,
		} {
			Expect(second(own.Patch(ctx, "plain", kind, []byte(patch), metav1.PatchOptions{}))).To(beInvalid)
		}

		_, err = neighbour.Patch(ctx, "neighbour", types.MergePatchType, []byte(`{"metadata": {"labels": {"x": "y"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(watcher.ResultChan()).Should(Receive(HaveField("Type", BeEquivalentTo("MODIFIED"))))
	}, SpecTimeout(specTimeout))
})
