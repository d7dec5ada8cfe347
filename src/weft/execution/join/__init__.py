"""Joins of new rows with the stored rows of other relations: equi-joins, probe trees and session joins."""
