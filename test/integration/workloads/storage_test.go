package workloads

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/test/env/suite"
)

// publishClass makes a class on the host, publishes it, and waits until a space has it.
func publishClass(ctx context.Context, name string, mode storagev1.VolumeBindingMode, in ...tenant.Name) {
	GinkgoHelper()
	_, err := host.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Annotations: map[string]string{tenant.PublishedAnnotation: "true"}},
		Provisioner: "test.example.com", VolumeBindingMode: &mode, AllowVolumeExpansion: new(true),
	}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	for _, n := range in {
		Eventually(func() error {
			_, err := tenantry.Client(n).StorageV1().StorageClasses().Get(ctx, name, metav1.GetOptions{})
			return err
		}).Should(Succeed())
	}
}

func plainClaim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: storage("1Gi")},
		},
	}
}

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// claimsOnHost returns the host's claims of a name, by their tenants.
func claimsOnHost(ctx context.Context, name string) map[string]*corev1.PersistentVolumeClaim {
	GinkgoHelper()
	list, err := host.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{LabelSelector: names.InstallationLabel})
	Expect(err).NotTo(HaveOccurred())
	found := map[string]*corev1.PersistentVolumeClaim{}
	for i := range list.Items {
		if list.Items[i].Name == name {
			found[list.Items[i].Annotations[names.TenantAnnotation]] = &list.Items[i]
		}
	}
	return found
}

// claimOnHost waits until the host has a tenant's claim, and returns it.
func claimOnHost(ctx context.Context, n tenant.Name, name string) (claim *corev1.PersistentVolumeClaim) {
	GinkgoHelper()
	Eventually(func() *corev1.PersistentVolumeClaim { claim = claimsOnHost(ctx, name)[n.String()]; return claim }).ShouldNot(BeNil())
	return claim
}

// bind does what the host's provisioner and binder do for a claim.
func bind(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	GinkgoHelper()
	volume, err := host.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "vol-"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: *claim.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "test.example.com", VolumeHandle: "secret-of-the-host"}},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	claims := host.CoreV1().PersistentVolumeClaims(claim.Namespace)
	Eventually(func() error {
		now, err := claims.Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Spec.VolumeName = volume.Name
		if now, err = claims.Update(ctx, now, metav1.UpdateOptions{}); err != nil {
			return err
		}
		now.Status.Phase, now.Status.Capacity, now.Status.AccessModes = corev1.ClaimBound, claim.Spec.Resources.Requests, claim.Spec.AccessModes
		_, err = claims.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
}

// bound waits until a claim of a space is bound, and returns it with its volume.
func bound(ctx context.Context, n tenant.Name, name string) (claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) {
	GinkgoHelper()
	client := tenantry.Client(n).CoreV1()
	Eventually(func(g Gomega) {
		var err error
		claim, err = client.PersistentVolumeClaims("default").Get(ctx, name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(claim.Status.Phase).To(Equal(corev1.ClaimBound))
	}).Should(Succeed())
	volume, err := client.PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return claim, volume
}

var _ = Describe("Claims of spaces", func() {
	It("have volumes of the host, each tenant its own, and end with them", func(ctx SpecContext) {
		publishClass(ctx, "fast", storagev1.VolumeBindingImmediate, acme, globex)
		volumes := map[string]bool{}
		for _, n := range []tenant.Name{acme, globex} {
			claims := tenantry.Client(n).CoreV1().PersistentVolumeClaims("default")
			_, err := claims.Create(ctx, plainClaim("data", "fast"), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			there := claimOnHost(ctx, n, "data")
			bind(ctx, there)
			claim, volume := bound(ctx, n, "data")
			Expect(there.Annotations).To(HaveKeyWithValue(names.UIDAnnotation, string(claim.UID)))
			Expect(volume.Spec.ClaimRef).To(HaveField("UID", claim.UID))
			Expect(volume.Spec.ClaimRef).To(HaveField("Namespace", "default"))
			Expect(volume.Status.Phase).To(Equal(corev1.VolumeBound))
			Expect(volume.Spec.PersistentVolumeReclaimPolicy).To(Equal(corev1.PersistentVolumeReclaimDelete))
			shown, err := volume.Marshal()
			Expect(err).NotTo(HaveOccurred())
			Expect(string(shown)).NotTo(Or(ContainSubstring("secret-of-the-host"), ContainSubstring("tn-")))
			volumes[volume.Name] = true
		}
		Expect(volumes).To(HaveLen(2))

		claims := tenantry.Client(acme).CoreV1().PersistentVolumeClaims("default")
		_, err := claims.Patch(ctx, "data", types.MergePatchType, []byte(`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() string {
			size := claimsOnHost(ctx, "data")["acme"].Spec.Resources.Requests[corev1.ResourceStorage]
			return size.String()
		}).Should(Equal("2Gi"))
		_, err = claims.Patch(ctx, "data", types.MergePatchType, []byte(`{"spec":{"resources":{"requests":{"storage":"1500Mi"}}}}`), metav1.PatchOptions{})
		Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("the host cluster makes no volume smaller"))))
		there := claimsOnHost(ctx, "data")["acme"]
		there.Status.Capacity = storage("2Gi")
		there.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue, Message: "on node 10.0.0.1"}}
		_, err = host.CoreV1().PersistentVolumeClaims(there.Namespace).UpdateStatus(ctx, there, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			claim, volume := bound(ctx, acme, "data")
			g.Expect(claim.Status.Capacity).To(Equal(storage("2Gi")))
			g.Expect(volume.Spec.Capacity).To(Equal(storage("2Gi")))
			g.Expect(claim.Status.Conditions).To(ContainElement(HaveField("Message", HavePrefix("Waiting for user to (re-)start a pod"))))
		}).Should(Succeed())

		claim, volume := bound(ctx, acme, "data")
		Expect(claims.Delete(ctx, "data", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error {
			_, err := claims.Create(ctx, plainClaim("data", "fast"), metav1.CreateOptions{})
			return err
		}).Should(Succeed(), "its name is free when the host has it no more")
		again := claimOnHost(ctx, acme, "data")
		Expect(again.UID).NotTo(Equal(there.UID))
		Expect(again.Annotations).NotTo(HaveKeyWithValue(names.UIDAnnotation, string(claim.UID)))
		Eventually(func() error {
			_, err := tenantry.Client(acme).CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{})
			return err
		}).Should(Satisfy(apierrors.IsNotFound))
	})

	It("say nothing that the host is to say", func(ctx SpecContext) {
		publishClass(ctx, "fast", storagev1.VolumeBindingImmediate, acme, globex)
		theirs := plainClaim("theirs", "fast")
		_, err := tenantry.Client(globex).CoreV1().PersistentVolumeClaims("default").Create(ctx, theirs, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		bind(ctx, claimOnHost(ctx, globex, "theirs"))
		_, volume := bound(ctx, globex, "theirs")
		there := claimsOnHost(ctx, "theirs")["globex"]

		client := tenantry.Client(acme).CoreV1()
		claims := client.PersistentVolumeClaims("default")
		forbidden := func(rule string, err error) {
			GinkgoHelper()
			Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring(rule))))
		}
		for rule, change := range map[string]func(*corev1.PersistentVolumeClaim){
			"spec.volumeName": func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = volume.Name },
			"spec.selector": func(c *corev1.PersistentVolumeClaim) {
				c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
			},
			"spec.storageClassName": func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("") },
			"spec.dataSource": func(c *corev1.PersistentVolumeClaim) {
				c.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: "s"}
			},
		} {
			claim := plainClaim("mine", "fast")
			change(claim)
			_, err := claims.Create(ctx, claim, metav1.CreateOptions{})
			forbidden(rule, err)
		}
		own := volume.DeepCopy()
		own.ObjectMeta = metav1.ObjectMeta{Name: "own", Annotations: map[string]string{names.HostUIDAnnotation: string(there.UID)}}
		_, err = client.PersistentVolumes().Create(ctx, own, metav1.CreateOptions{})
		forbidden("volumes of a space are those that the host cluster has found for its claims", err)

		_, err = claims.Create(ctx, plainClaim("mine", "fast"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		bind(ctx, claimOnHost(ctx, acme, "mine"))
		_, mine := bound(ctx, acme, "mine")
		patch := func(patch string, subresources ...string) error {
			_, err := claims.Patch(ctx, "mine", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
			return err
		}
		forbidden("status is what the host cluster says of the claim", patch(`{"status":{"capacity":{"storage":"1Mi"}}}`, "status"))
		forbidden("metadata.finalizers", patch(`{"metadata":{"finalizers":null}}`))
		forbidden("metadata.finalizers", patch(`{"metadata":{"finalizers":null}}`, "status"))
		forbidden(names.Prefix, patch(`{"metadata":{"annotations":{"`+names.HostUIDAnnotation+`":"`+string(there.UID)+`"}}}`))
		_, err = client.PersistentVolumes().Patch(ctx, mine.Name, types.MergePatchType, []byte(`{"spec":{"claimRef":{"name":"theirs"}}}`), metav1.PatchOptions{})
		forbidden("spec is what the host cluster says of the volume", err)
		_, err = client.PersistentVolumes().Patch(ctx, mine.Name, types.MergePatchType, []byte(`{"status":{"phase":"Available"}}`), metav1.PatchOptions{}, "status")
		forbidden("status is what the host cluster says of the volume", err)
	})

	It("of a class that is not published have no volume, and say so", func(ctx SpecContext) {
		client := tenantry.Client(acme)
		_, err := client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Provisioner: "test.example.com"}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = host.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Provisioner: "test.example.com"}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		made, err := client.CoreV1().PersistentVolumeClaims("default").Create(ctx, plainClaim("unpublished", "own"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() ([]corev1.Event, error) {
			list, err := client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(made.UID)})
			return list.Items, err
		}).Should(ContainElement(HaveField("Message", ContainSubstring("name one that is published"))))
		Expect(claimsOnHost(ctx, "unpublished")).To(BeEmpty())
	})

	It("are never what somebody has put in their place on the host", func(ctx SpecContext) {
		publishClass(ctx, "fast", storagev1.VolumeBindingImmediate, acme)
		client := tenantry.Client(acme).CoreV1()
		_, err := client.PersistentVolumeClaims("default").Create(ctx, plainClaim("first", "fast"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		in := host.CoreV1().PersistentVolumeClaims(claimOnHost(ctx, acme, "first").Namespace)
		planted, err := in.Create(ctx, plainClaim("planted", "fast"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		bind(ctx, planted)
		made, err := client.PersistentVolumeClaims("default").Create(ctx, plainClaim("planted", "fast"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		robbed := plainPod("robbed")
		robbed.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "planted"}}}}
		pod, err := client.Pods("default").Create(ctx, robbed, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		told := func(uid types.UID) func() ([]corev1.Event, error) {
			return func() ([]corev1.Event, error) {
				list, err := client.Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(uid)})
				return list.Items, err
			}
		}
		Eventually(told(made.UID)).Should(ContainElement(HaveField("Message", ContainSubstring("the host cluster has another claim in its place"))))
		Eventually(told(pod.UID)).Should(ContainElement(HaveField("Message", ContainSubstring(`persistentvolumeclaim "planted" is not on the host cluster`))))
		Expect(hostPods(ctx, "robbed")).To(BeEmpty())
		there, err := in.Get(ctx, "planted", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(there.UID).To(Equal(planted.UID))
		Expect(there.Annotations).NotTo(HaveKey(names.UIDAnnotation))
		Expect(in.Delete(ctx, "planted", metav1.DeleteOptions{})).To(Succeed())
		Expect(onHost(ctx, acme, "robbed").Spec.Volumes).To(ContainElement(HaveField("Name", "v")))
		Expect(claimsOnHost(ctx, "planted")["acme"].UID).NotTo(Equal(planted.UID))
	})

	It("of another life of a namespace have other volumes", func(ctx SpecContext) {
		publishClass(ctx, "fast", storagev1.VolumeBindingImmediate, globex)
		client := tenantry.Client(globex).CoreV1()
		create := func() {
			GinkgoHelper()
			Eventually(func() error {
				_, err := client.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lives"}}, metav1.CreateOptions{})
				return err
			}).Should(Succeed())
			Eventually(func() error {
				_, err := client.PersistentVolumeClaims("lives").Create(ctx, plainClaim("life", "fast"), metav1.CreateOptions{})
				return err
			}).Should(Succeed())
		}
		create()
		first := claimOnHost(ctx, globex, "life")
		bind(ctx, first)
		Expect(client.Namespaces().Delete(ctx, "lives", metav1.DeleteOptions{})).To(Succeed())
		create()
		second := claimOnHost(ctx, globex, "life")
		Expect(second.Namespace).NotTo(Equal(first.Namespace))
		Expect(second.Spec.VolumeName).To(BeEmpty())
		_, err := host.CoreV1().PersistentVolumeClaims(first.Namespace).Get(ctx, "life", metav1.GetOptions{})
		Expect(err).To(Satisfy(apierrors.IsNotFound))
	})

	It("of a StatefulSet stay when its pods go", func(ctx SpecContext) {
		publishClass(ctx, "waits", storagev1.VolumeBindingWaitForFirstConsumer, acme)
		client := tenantry.Client(acme)
		_, err := client.CoreV1().PersistentVolumeClaims("default").Create(ctx, plainClaim("unused", "waits"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		pod := plainPod("")
		pod.Labels = map[string]string{"app": "db"}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "state", MountPath: "/state"}}
		_, err = client.AppsV1().StatefulSets("default").Create(ctx, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "db"},
			Spec: appsv1.StatefulSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
				VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*plainClaim("state", "waits")},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := claimOnHost(ctx, acme, "state-db-0")
		first := onHost(ctx, acme, "db-0")
		Expect(first.Spec.Volumes).To(ContainElement(HaveField("PersistentVolumeClaim.ClaimName", "state-db-0")))
		Expect(claimsOnHost(ctx, "unused")).To(BeEmpty(), "no pod names it")
		bind(ctx, there)
		bound(ctx, acme, "state-db-0")
		Expect(client.CoreV1().Pods("default").Delete(ctx, "db-0", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() types.UID { return onHost(ctx, acme, "db-0").UID }).ShouldNot(Equal(first.UID))
		Expect(claimsOnHost(ctx, "state-db-0")["acme"].UID).To(Equal(there.UID))
		Expect(client.AppsV1().StatefulSets("default").Delete(ctx, "db", metav1.DeleteOptions{})).To(Succeed())
	})

	It("of ephemeral volumes are counted, and end with their pod", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "ephemeral")
		publishClass(ctx, "waits", storagev1.VolumeBindingWaitForFirstConsumer, n)
		client := tenantry.Client(n).CoreV1()
		quotas := client.ResourceQuotas("default")
		_, err := quotas.Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"persistentvolumeclaims": resource.MustParse("1"), "requests.storage": resource.MustParse("1Gi")}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		used := func() (string, error) {
			quota, err := quotas.Get(ctx, "one", metav1.GetOptions{})
			claims, size := quota.Status.Used["persistentvolumeclaims"], quota.Status.Used["requests.storage"]
			return strings.Join([]string{claims.String(), size.String()}, " "), err
		}
		Eventually(used).Should(Equal("0 0"))
		large := plainClaim("large", "waits")
		large.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		Eventually(func() error { // admission knows a quota some time after it has been made
			_, err := client.PersistentVolumeClaims("default").Create(ctx, large, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).Should(MatchError(ContainSubstring("exceeded quota")))
		pod := func(name string) *corev1.Pod {
			pod := plainPod(name)
			pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: plainClaim("", "waits").Spec}},
			}}}
			return pod
		}
		create := func(name string) {
			GinkgoHelper()
			_, err := client.Pods("default").Create(ctx, pod(name), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		create("one")
		there := onHost(ctx, n, "one")
		Expect(there.Spec.Volumes).To(ContainElement(HaveField("PersistentVolumeClaim.ClaimName", "one-scratch")))
		Eventually(used).Should(Equal("1 1Gi"))
		create("two")
		Eventually(func() ([]corev1.Event, error) {
			list, err := client.Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=two"})
			return list.Items, err
		}).Should(ContainElement(HaveField("Message", ContainSubstring("exceeded quota"))))
		Expect(hostPods(ctx, "two")).To(BeEmpty(), "it waits for its claim")
		Expect(client.Pods("default").Delete(ctx, "one", *metav1.NewDeleteOptions(0))).To(Succeed())
		Eventually(func() map[string]*corev1.PersistentVolumeClaim { return claimsOnHost(ctx, "one-scratch") }).Should(BeEmpty())
		claimOnHost(ctx, n, "two-scratch")
		onHost(ctx, n, "two")
		Expect(client.Pods("default").Delete(ctx, "two", *metav1.NewDeleteOptions(0))).To(Succeed())
		Eventually(used).Should(Equal("0 0"))
	})

	It("of a deleted tenant are gone on the host", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "stored")
		publishClass(ctx, "fast", storagev1.VolumeBindingImmediate, n)
		_, err := tenantry.Client(n).CoreV1().PersistentVolumeClaims("default").Create(ctx, plainClaim("stored", "fast"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := claimOnHost(ctx, n, "stored")
		bind(ctx, there)
		bound(ctx, n, "stored")
		tenantry.DeleteTenant(ctx, n)
		Expect(claimsOnHost(ctx, "stored")).To(BeEmpty())
	})
})

var _ = Describe("The rights of the syncer on storage", func() {
	It("do not choose volumes", func(ctx SpecContext) {
		publishClass(ctx, "fast", storagev1.VolumeBindingImmediate, acme)
		_, err := tenantry.Client(acme).CoreV1().PersistentVolumeClaims("default").Create(ctx, plainClaim("rights", "fast"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		in := claimOnHost(ctx, acme, "rights").Namespace
		config := tenantry.Config(tenant.System)
		config.Impersonate.UserName = "system:serviceaccount:tenantry-workloads:syncer"
		config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:tenantry-workloads", "system:authenticated"}
		stolen := suite.Client(config).CoreV1()
		refused := MatchError(ContainSubstring("claims of spaces have a class, and choose no volume"))
		for _, change := range []func(*corev1.PersistentVolumeClaim){
			func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "theirs" },
			func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} },
			func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("") },
			func(c *corev1.PersistentVolumeClaim) {
				c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: ""}
			},
		} {
			claim := plainClaim("stolen", "fast")
			change(claim)
			_, err := stolen.PersistentVolumeClaims(in).Create(ctx, claim, metav1.CreateOptions{})
			Expect(err).To(refused)
		}
		_, err = stolen.PersistentVolumeClaims(in).Patch(ctx, "rights", types.MergePatchType, []byte(`{"spec":{"volumeName":"theirs"}}`), metav1.PatchOptions{})
		Expect(err).To(refused)
		_, err = stolen.PersistentVolumes().List(ctx, metav1.ListOptions{})
		Expect(err).To(Satisfy(apierrors.IsForbidden))
		Expect(stolen.PersistentVolumeClaims("default").Delete(ctx, "any", metav1.DeleteOptions{})).To(Satisfy(apierrors.IsForbidden))
	})
})
