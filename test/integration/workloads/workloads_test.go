package workloads

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/test/env/suite"
)

var _ = Describe("Pods of spaces", func() {
	It("run on the host, and end there", func(ctx SpecContext) {
		pods := tenantry.Client(acme).CoreV1().Pods("default")
		made, err := pods.Create(ctx, plainPod("life"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, "life")
		Expect(there.Annotations).To(HaveKeyWithValue(names.UIDAnnotation, string(made.UID)))
		Expect(there.Spec.PriorityClassName).To(Equal("tenantry-workloads"))
		Expect(*there.Spec.PreemptionPolicy).To(Equal(corev1.PreemptNever))
		start(ctx, there)
		Eventually(func(g Gomega) {
			now, err := pods.Get(ctx, "life", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Spec.NodeName).To(Equal("node"))
			g.Expect(now.Status.Phase).To(Equal(corev1.PodRunning))
			g.Expect(now.Status.PodIP).To(Equal("10.0.0.7"))
		}).Should(Succeed())

		Expect(pods.Delete(ctx, "life", metav1.DeleteOptions{})).To(Succeed())
		hostPods := host.CoreV1().Pods(there.Namespace)
		Eventually(func(g Gomega) {
			now, err := hostPods.Get(ctx, "life", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.DeletionTimestamp).NotTo(BeNil())
			g.Expect(*now.DeletionGracePeriodSeconds).To(Equal(int64(7)))
		}).Should(Succeed())
		now, err := pods.Get(ctx, "life", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred(), "it is there until the host's has ended")
		Expect(now.DeletionTimestamp).NotTo(BeNil())
		Expect(hostPods.Delete(ctx, "life", *metav1.NewDeleteOptions(0))).To(Succeed())
		Eventually(func() error {
			_, err := pods.Get(ctx, "life", metav1.GetOptions{})
			return err
		}).Should(Satisfy(apierrors.IsNotFound))
	})

	It("are of their tenant alone, whatever they are called", func(ctx SpecContext) {
		for _, n := range []tenant.Name{acme, globex} {
			_, err := tenantry.Client(n).CoreV1().Pods("default").Create(ctx, plainPod("same"), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		one, other := onHost(ctx, acme, "same"), onHost(ctx, globex, "same")
		Expect(one.Namespace).NotTo(Equal(other.Namespace))
		start(ctx, one)
		Eventually(func() (corev1.PodPhase, error) {
			now, err := tenantry.Client(acme).CoreV1().Pods("default").Get(ctx, "same", metav1.GetOptions{})
			return now.Status.Phase, err
		}).Should(Equal(corev1.PodRunning))
		now, err := tenantry.Client(globex).CoreV1().Pods("default").Get(ctx, "same", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Status.Phase).To(Equal(corev1.PodPending))
	})

	It("have what they read, and nothing else is there", func(ctx SpecContext) {
		core := tenantry.Client(acme).CoreV1()
		for _, name := range []string{"read", "unread"} {
			_, err := core.Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"k": "v"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		pod := plainPod("reader")
		pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "read"}}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "later"}}},
		}
		_, err := core.Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, "reader")
		Expect(there.Spec.Containers[0].EnvFrom[0].SecretRef.Name).To(Equal("tn-read"))
		secrets := func() (found []string) {
			list, err := host.CoreV1().Secrets(there.Namespace).List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			for _, secret := range list.Items {
				if secret.Name == "tn-read" || secret.Name == "tn-unread" { // others are of other pods
					found = append(found, secret.Name+"="+string(secret.Data["k"]))
				}
			}
			return found
		}
		Eventually(secrets).Should(ConsistOf("tn-read=v"))

		_, err = core.ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Data: map[string]string{"a": "b"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (map[string]string, error) {
			found, err := host.CoreV1().ConfigMaps(there.Namespace).Get(ctx, "tn-later", metav1.GetOptions{})
			return found.Data, err
		}).Should(HaveKeyWithValue("a", "b"))
		_, err = core.Secrets("default").Patch(ctx, "read", types.MergePatchType, []byte(`{"stringData":{"k":"w"}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(secrets).Should(ConsistOf("tn-read=w"))
		Expect(core.Pods("default").Delete(ctx, "reader", metav1.DeleteOptions{})).To(Succeed())
		Eventually(secrets).Should(BeEmpty())
	})

	It("are refused with the field, in pods and templates, and what is refused reaches no host", func(ctx SpecContext) {
		client := tenantry.Client(acme)
		pod := plainPod("refused")
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		_, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("spec.volumes[0].hostPath"))))
		labels := map[string]string{"app": "refused"}
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: plainPod("").Spec},
		}}
		deployment.Spec.Template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		_, err = client.AppsV1().Deployments("default").Create(ctx, deployment, metav1.CreateOptions{})
		Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("Pod Security level baseline"))))
		Expect(tenantry.SetSpec(ctx, acme, "workloads", `{"podSecurity":"most"}`)).To(MatchError(ContainSubstring("spec.workloads.podSecurity")))
	})

	It("may be what their Tenant allows, and say why they are not on the host", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "level")
		Expect(tenantry.SetSpec(ctx, n, "workloads", `{"podSecurity":"privileged"}`)).To(Succeed())
		pods := tenantry.Client(n).CoreV1().Pods("default")
		waiting := plainPod("privileged")
		waiting.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		waiting.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		Eventually(func() error {
			_, err := pods.Create(ctx, waiting, metav1.CreateOptions{})
			return err
		}).Should(Succeed())
		Expect(tenantry.SetSpec(ctx, n, "workloads", `{"podSecurity":"baseline"}`)).To(Succeed())
		_, err := pods.Patch(ctx, "privileged", types.MergePatchType, []byte(`{"spec":{"schedulingGates":[]}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (string, error) {
			now, err := pods.Get(ctx, "privileged", metav1.GetOptions{})
			if err != nil || len(now.Status.Conditions) == 0 {
				return "", err
			}
			return now.Status.Conditions[0].Message, nil
		}).Should(ContainSubstring("it violates the Pod Security level baseline"))
		Expect(tenantry.SetSpec(ctx, n, "workloads", `{"podSecurity":"privileged"}`)).To(Succeed())
		there := onHost(ctx, n, "privileged")
		namespace, err := host.CoreV1().Namespaces().Get(ctx, there.Namespace, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(namespace.Labels).To(HaveKeyWithValue("pod-security.kubernetes.io/enforce", "privileged"))
	})

	It("are not started by their users' own bindings", func(ctx SpecContext) {
		pods := tenantry.Client(acme).CoreV1().Pods("default")
		Expect(tenantry.SetSpec(ctx, acme, "nodePlacement", `{"mode":"Enabled"}`)).To(Succeed())
		pod := plainPod("self")
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "self"}, Target: corev1.ObjectReference{Kind: "Node", Name: "x"}}, metav1.CreateOptions{})).
			To(MatchError(ContainSubstring("the host cluster finds the nodes of pods")))
		all, err := hostPods(ctx, "self")
		Expect(err).NotTo(HaveOccurred())
		Expect(all).To(BeEmpty(), "it waits for its gate")
		_, err = pods.Patch(ctx, "self", types.MergePatchType, []byte(`{"spec":{"schedulingGates":[]}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		onHost(ctx, acme, "self")
	})

	It("stay where they are when somebody replaces all their annotations", func(ctx SpecContext) {
		pods := tenantry.Client(acme).CoreV1().Pods("default")
		_, err := pods.Create(ctx, plainPod("replaced"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, "replaced")
		start(ctx, there)
		place := string(there.UID)
		var pod *corev1.Pod
		Eventually(func(g Gomega) {
			pod, err = pods.Get(ctx, "replaced", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pod.Annotations).To(HaveKeyWithValue(names.HostUIDAnnotation, place))
			pod.Annotations = map[string]string{"own": "yes"}
			pod, err = pods.Update(ctx, pod, metav1.UpdateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}).Should(Succeed())
		Expect(pod.Annotations).To(And(HaveKeyWithValue("own", "yes"), HaveKeyWithValue(names.HostUIDAnnotation, place)))
	})

	It("of another life of a namespace are other pods", func(ctx SpecContext) {
		client := tenantry.Client(globex)
		create := func() *corev1.Pod {
			GinkgoHelper()
			Eventually(func() error {
				_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "twice"}}, metav1.CreateOptions{})
				return err
			}).Should(Succeed())
			Eventually(func() error {
				_, err := client.CoreV1().Pods("twice").Create(ctx, plainPod("again"), metav1.CreateOptions{})
				return err
			}).Should(Succeed())
			return onHost(ctx, globex, "again")
		}
		first := create()
		Expect(client.CoreV1().Namespaces().Delete(ctx, "twice", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error {
			_, err := host.CoreV1().Namespaces().Get(ctx, first.Namespace, metav1.GetOptions{})
			return err
		}).Should(Satisfy(apierrors.IsNotFound))
		Expect(create().Namespace).NotTo(Equal(first.Namespace))
	})

	It("of a deleted tenant are gone, with its namespaces on the host", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "going")
		_, err := tenantry.Client(n).CoreV1().Pods("default").Create(ctx, plainPod("going"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, n, "going")
		start(ctx, there)
		Eventually(func() (string, error) {
			now, err := tenantry.Client(n).CoreV1().Pods("default").Get(ctx, "going", metav1.GetOptions{})
			return now.Spec.NodeName, err
		}).Should(Equal("node"))
		space, err := tenantry.Tenants().Get(ctx, n.String(), metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		uid := space.GetUID()
		Expect(tenantry.Tenants().Delete(ctx, n.String(), metav1.DeleteOptions{})).To(Succeed())
		pods := host.CoreV1().Pods(there.Namespace)
		Eventually(func(g Gomega) { // as a kubelet does
			now, err := pods.Get(ctx, "going", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.DeletionTimestamp).NotTo(BeNil())
		}).Should(Succeed())
		Expect(pods.Delete(ctx, "going", *metav1.NewDeleteOptions(0))).To(Succeed())
		tenantry.DeleteTenant(ctx, n)
		receipts := func(reason string) (all []eventsv1.Event) {
			GinkgoHelper()
			list, err := host.EventsV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
			Expect(err).NotTo(HaveOccurred())
			for _, event := range list.Items {
				if event.Regarding.UID == uid && event.Regarding.Kind == "Tenant" && event.Regarding.Name == n.String() {
					all = append(all, event)
				}
			}
			return all
		}
		Eventually(func() []eventsv1.Event { return receipts("WorkloadsDeleted") }).WithTimeout(2 * time.Minute).Should(HaveLen(1)) // a worker may still make one
		left, err := host.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: names.TenantUIDLabel + "=" + string(uid)})
		Expect(err).NotTo(HaveOccurred())
		Expect(left.Items).To(BeEmpty(), "when there is the receipt, nothing else is there")
		_, err = host.CoreV1().Namespaces().Get(ctx, there.Namespace, metav1.GetOptions{})
		Expect(err).To(Satisfy(apierrors.IsNotFound))
		Expect(receipts("WorkloadsDeleted")[0].Note).To(Equal("of the tenant's namespaces on the host cluster (1), none is left"))
		Eventually(func() []eventsv1.Event { return receipts("WorkloadsDeleting") }).Should(BeEmpty())
		Expect(receipts("SpaceDeleted")).To(HaveLen(1))
	})

	It("cost an idle tenant nothing on the host", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "idle")
		space, err := tenantry.Tenants().Get(ctx, n.String(), metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		uid := string(space.GetUID())
		core := tenantry.Client(n).CoreV1()
		_, err = core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "unused"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = core.ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "unused"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		of := func() []string { return hostObjectsOf(ctx, uid) }
		Consistently(of).WithTimeout(3 * time.Second).Should(BeEmpty())
		_, err = core.Pods("default").Create(ctx, plainPod("first"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(of).Should(ContainElements(HavePrefix("namespaces/"), HavePrefix("pods/"), HavePrefix("secrets/")), "one that is not idle has some")
	})
})

// hostObjectsOf returns all objects of the host, of all kinds, that have the mark of a tenant.
func hostObjectsOf(ctx context.Context, uid string) (all []string) {
	GinkgoHelper()
	lists, err := host.Discovery().ServerPreferredResources()
	Expect(err).NotTo(HaveOccurred())
	client, err := metadata.NewForConfig(tenantry.Config(tenant.System))
	Expect(err).NotTo(HaveOccurred())
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		Expect(err).NotTo(HaveOccurred())
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") {
				continue
			}
			found, err := client.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			for i := range found.Items {
				if o := &found.Items[i]; o.Annotations[names.TenantUIDAnnotation] == uid || o.Labels[names.TenantUIDLabel] == uid {
					all = append(all, resource.Name+"/"+o.Name)
				}
			}
		}
	}
	return all
}

var _ = Describe("The labels by which namespaces of spaces are known", func() {
	It("are the syncer's to set", func(ctx SpecContext) {
		planted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-planted", Labels: map[string]string{names.InstallationLabel: "x"}}}
		refused := MatchError(ContainSubstring("set by the syncer alone"))
		Eventually(func() error { // the policy holds some time after it has been made
			_, err := host.CoreV1().Namespaces().Create(ctx, planted, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).Should(refused)
		unlabelled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "planted"}}
		_, err := host.CoreV1().Namespaces().Create(ctx, unlabelled, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(host.CoreV1().Namespaces().Delete(ctx, "planted", metav1.DeleteOptions{})).To(Succeed())
		})
		_, err = host.CoreV1().Namespaces().Patch(ctx, "planted", types.MergePatchType, []byte(`{"metadata":{"labels":{"`+names.TenantUIDLabel+`":"x"}}}`), metav1.PatchOptions{})
		Expect(err).To(refused)
		_, err = host.CoreV1().Namespaces().Patch(ctx, "planted", types.MergePatchType, []byte(`{"metadata":{"labels":{"`+names.TenantUIDLabel+`":"x"}}}`), metav1.PatchOptions{}, "status")
		Expect(err).To(refused)
		now, err := host.CoreV1().Namespaces().Get(ctx, "planted", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		now.Labels[names.TenantUIDLabel] = "x"
		_, err = host.CoreV1().Namespaces().Finalize(ctx, now, metav1.UpdateOptions{})
		Expect(err).To(refused)
		_, err = tenantry.Client(acme).CoreV1().Pods("default").Create(ctx, plainPod("labelled"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = host.CoreV1().Namespaces().Patch(ctx, onHost(ctx, acme, "labelled").Namespace, types.MergePatchType, []byte(`{"metadata":{"labels":{"`+names.InstallationLabel+`":null}}}`), metav1.PatchOptions{})
		Expect(err).To(refused)
	})

	It("are on namespaces whose names are the syncer's to give", func(ctx SpecContext) {
		for _, planted := range []metav1.ObjectMeta{{Name: "tn-squat"}, {GenerateName: "tn-squat-"}} {
			Eventually(func() error { // the policy holds some time after it has been made
				_, err := host.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: planted}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			}).Should(MatchError(ContainSubstring("made by the syncer alone; use another name")))
		}
	})
})

var _ = Describe("The label by which objects of spaces are known", func() {
	It("is on what is in their namespaces alone", func(ctx SpecContext) {
		_, err := host.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-x"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(host.CoreV1().Namespaces().Delete(ctx, "team-x", metav1.DeleteOptions{})).To(Succeed())
		})
		refused := MatchError(ContainSubstring("is in their namespaces alone; remove the label"))
		meta := metav1.ObjectMeta{Name: "x", Namespace: "team-x", Labels: map[string]string{names.InstallationLabel: "anything"}}
		pod := plainPod("x")
		Eventually(func() error { // the policy holds some time after it has been made
			labelled := pod.DeepCopy()
			labelled.ObjectMeta = meta
			_, err := host.CoreV1().Pods("team-x").Create(ctx, labelled, dryCreate)
			return err
		}).Should(refused)
		_, err = host.CoreV1().Services("team-x").Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, dryCreate)
		Expect(err).To(refused)
		_, err = host.CoreV1().ConfigMaps("team-x").Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, dryCreate)
		Expect(err).To(refused)
		_, err = host.CoreV1().PersistentVolumeClaims("team-x").Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}, dryCreate)
		Expect(err).To(refused)
		_, err = host.CoreV1().Pods("team-x").Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		label := []byte(`{"metadata":{"labels":{"` + names.InstallationLabel + `":"anything"}}}`)
		_, err = host.CoreV1().Pods("team-x").Patch(ctx, "x", types.MergePatchType, label, metav1.PatchOptions{})
		Expect(err).To(refused)
		_, err = host.CoreV1().Pods("team-x").Patch(ctx, "x", types.MergePatchType, label, metav1.PatchOptions{}, "status")
		Expect(err).To(refused)
		_, err = host.CoreV1().Pods("team-x").Patch(ctx, "x", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
	})
})

var _ = Describe("The rights of the syncer", func() {
	It("do not reach beyond the namespaces of spaces", func(ctx SpecContext) {
		config := tenantry.Config(tenant.System)
		config.Impersonate.UserName = "system:serviceaccount:tenantry-workloads:syncer"
		config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:tenantry-workloads", "system:authenticated"}
		stolen := suite.Client(config)
		policy := "ValidatingAdmissionPolicy 'tenantry-workloads'"
		Eventually(func() error { // the policy holds some time after it has been made
			_, err := stolen.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).Should(MatchError(ContainSubstring(policy)))
		_, err := stolen.CoreV1().Namespaces().Patch(ctx, "kube-system", types.MergePatchType, []byte(`{"metadata":{"labels":{"`+names.InstallationLabel+`":"x","pod-security.kubernetes.io/enforce":"privileged"}}}`), metav1.PatchOptions{})
		Expect(err).To(MatchError(ContainSubstring(policy)))
		Expect(stolen.CoreV1().Namespaces().Delete(ctx, "tenantry-workloads", metav1.DeleteOptions{})).To(MatchError(ContainSubstring(policy)))
		_, err = tenantry.Client(acme).CoreV1().Pods("default").Create(ctx, plainPod("addressed"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, "addressed")
		start(ctx, there)
		for status, want := range map[string]gomegatypes.GomegaMatcher{
			`{"podIP":"10.0.0.99"}`:                                        MatchError(ContainSubstring(policy)),
			`{"phase":"Succeeded"}`:                                        MatchError(ContainSubstring(policy)),
			`{"conditions":[{"type":"Ready","status":"False"}]}`:           MatchError(ContainSubstring(policy)),
			`{"conditions":[{"type":"DisruptionTarget","status":"True"}]}`: MatchError(ContainSubstring(policy)),
			`{"conditions":[{"type":"example.com/a","status":"True"}]}`:    Succeed(),
		} {
			_, err := stolen.CoreV1().Pods(there.Namespace).Patch(ctx, there.Name, types.StrategicMergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
			Expect(err).To(want, status)
		}
		_, err = stolen.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
		Expect(err).To(Satisfy(apierrors.IsForbidden))
		_, err = stolen.CoreV1().Secrets("tenantry-workloads").List(ctx, metav1.ListOptions{})
		Expect(err).To(Satisfy(apierrors.IsForbidden))
	})
})
