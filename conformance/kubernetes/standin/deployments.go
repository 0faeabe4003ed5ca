package standin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// lookAtDeployments keeps the number of pods, without replica sets between: a template that changes is for pods to come.
func (s *Standin) lookAtDeployments(ctx context.Context) error {
	owned := map[types.UID][]*core.Pod{}
	for _, pod := range s.pods.all() {
		if owner := meta.GetControllerOf(pod); owner != nil && owner.Kind == "Deployment" {
			owned[owner.UID] = append(owned[owner.UID], pod)
		}
	}
	var failed []error
	for _, deployment := range s.deployments.all() {
		if deployment.DeletionTimestamp == nil {
			failed = append(failed, s.keepPods(ctx, deployment, owned[deployment.UID]))
			delete(owned, deployment.UID)
		} else {
			failed = append(failed, s.letGo(ctx, deployment))
		}
	}
	for _, orphans := range owned {
		failed = append(failed, s.deletePods(ctx, orphans))
	}
	return errors.Join(failed...)
}

// keepPods names pods by their number: one that it has not seen yet is not made twice. Two words follow the deployment's
// name, as they do where a replica set is between: Gateway API's suite takes them off.
func (s *Standin) keepPods(ctx context.Context, deployment *apps.Deployment, pods []*core.Pod) error {
	var wanted []string
	for number := range *deployment.Spec.Replicas {
		wanted = append(wanted, fmt.Sprintf("%s-%s-%d", deployment.Name, signature, number))
	}
	var failed []error
	for _, pod := range pods {
		if !slices.Contains(wanted, pod.Name) {
			failed = append(failed, s.deletePods(ctx, []*core.Pod{pod}))
		}
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(pods, func(pod *core.Pod) bool { return pod.Name == name }) {
			failed = append(failed, s.makePod(ctx, deployment, name))
		}
	}
	failed = append(failed, s.countPods(ctx, deployment, pods))
	return errors.Join(failed...)
}

func (s *Standin) makePod(ctx context.Context, deployment *apps.Deployment, name string) error {
	kind := apps.SchemeGroupVersion.WithKind("Deployment")
	template := deployment.Spec.Template.DeepCopy()
	pod := &core.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name = name
	pod.OwnerReferences = []meta.OwnerReference{*meta.NewControllerRef(deployment, kind)}
	_, err := s.client.CoreV1().Pods(deployment.Namespace).Create(ctx, pod, meta.CreateOptions{})
	return ignoreOld(err)
}

func (s *Standin) deletePods(ctx context.Context, pods []*core.Pod) error {
	var failed []error
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			err := s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, meta.DeleteOptions{})
			failed = append(failed, ignoreOld(err))
		}
	}
	return errors.Join(failed...)
}

func (s *Standin) countPods(ctx context.Context, deployment *apps.Deployment, pods []*core.Pod) error {
	total, ready := int32(len(pods)), int32(0)
	for _, pod := range pods {
		if isReady(pod) && pod.DeletionTimestamp == nil {
			ready++
		}
	}
	available := core.ConditionFalse
	if ready >= *deployment.Spec.Replicas {
		available = core.ConditionTrue
	}
	seen := deployment.DeepCopy()
	seen.Status = apps.DeploymentStatus{
		ObservedGeneration: deployment.Generation,
		Replicas:           total,
		UpdatedReplicas:    total,
		ReadyReplicas:      ready,
		AvailableReplicas:  ready,
		Conditions:         []apps.DeploymentCondition{{Type: apps.DeploymentAvailable, Status: available, Reason: "Counted"}},
	}
	if equality.Semantic.DeepEqual(seen.Status, deployment.Status) {
		return nil
	}
	_, err := s.client.AppsV1().Deployments(deployment.Namespace).UpdateStatus(ctx, seen, meta.UpdateOptions{})
	return ignoreOld(err)
}

// letGo removes what the garbage collector would wait for: its pods go when it has gone.
func (s *Standin) letGo(ctx context.Context, deployment *apps.Deployment) error {
	collected := func(finalizer string) bool {
		return finalizer == meta.FinalizerDeleteDependents || finalizer == meta.FinalizerOrphanDependents
	}
	left := slices.DeleteFunc(slices.Clone(deployment.Finalizers), collected)
	if len(left) == len(deployment.Finalizers) {
		return nil
	}
	gone := deployment.DeepCopy()
	gone.Finalizers = left
	_, err := s.client.AppsV1().Deployments(deployment.Namespace).Update(ctx, gone, meta.UpdateOptions{})
	return ignoreOld(err)
}
